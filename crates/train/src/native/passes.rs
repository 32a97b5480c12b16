//! Passes over rows of channels between the products: normalise, activate, lay out, and their way back. They are bound by
//! memory, so each reads and writes once; they are compiled for each vector width and chosen at run time.

use eval::cpu::matmul::Element;

/// Defines a function (generic over one [`Element`] or not) that is compiled for AVX-512, AVX2 and the plain target.
macro_rules! vectorised {
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$element:ident: $bound:ident>)? (
        $($argument:ident: $type:ty),* $(,)?
    ) $body:block) => {
        $(#[$meta])*
        $vis fn $name $(<$element: $bound>)? ($($argument: $type),*) {
            #[inline(always)]
            fn body $(<$element: $bound>)? ($($argument: $type),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
                fn wide $(<$element: $bound>)? ($($argument: $type),*) {
                    body $(::<$element>)? ($($argument),*);
                }
                #[target_feature(enable = "avx2,fma")]
                fn narrow $(<$element: $bound>)? ($($argument: $type),*) {
                    body $(::<$element>)? ($($argument),*);
                }
                match $crate::native::passes::width() {
                    // SAFETY: `width` found the features that `wide` is compiled with.
                    $crate::native::passes::Width::Wide => {
                        return unsafe { wide $(::<$element>)? ($($argument),*) };
                    }
                    // SAFETY: `width` found the features that `narrow` is compiled with.
                    $crate::native::passes::Width::Narrow => {
                        return unsafe { narrow $(::<$element>)? ($($argument),*) };
                    }
                    $crate::native::passes::Width::Plain => {}
                }
            }
            body $(::<$element>)? ($($argument),*);
        }
    };
}
pub(super) use vectorised;

/// Vector extensions that the passes are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Wide,
    Narrow,
    Plain,
}

impl Width {
    /// The name of products in single precision.
    pub fn single_precision(self) -> &'static str {
        match self {
            Self::Wide => "f32 with AVX-512",
            Self::Narrow => "f32 with AVX2",
            Self::Plain => "f32",
        }
    }
}

/// What this processor has.
pub(super) fn width() -> Width {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("fma")
        {
            return Width::Wide;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return Width::Narrow;
        }
    }
    Width::Plain
}

/// A channel's affine map before the activation: `scale * y + shift`.
#[derive(Clone, Debug, Default)]
pub(super) struct Affine {
    pub scale: Vec<f32>,
    pub shift: Vec<f32>,
    pub relu: bool,
}

/// How a gradient passes a norm: `dy = gain * dz + slope * y + offset` (no norm: 1, 0, 0).
#[derive(Clone, Debug, Default)]
pub(super) struct NormBackward {
    pub gain: Vec<f32>,
    pub slope: Vec<f32>,
    pub offset: Vec<f32>,
}

vectorised! {
/// `a = act(scale * y + shift)` over rows.
pub(super) fn activate<E: Element>(y: &[E], affine: &Affine, a: &mut [E]) {
    let channels = affine.scale.len();
    let floor = if affine.relu { 0.0 } else { f32::NEG_INFINITY };
    for (y, a) in y.chunks_exact(channels).zip(a.chunks_exact_mut(channels)) {
        for (((y, a), scale), shift) in y.iter().zip(a).zip(&affine.scale).zip(&affine.shift) {
            *a = E::from_f32((y.to_f32() * scale + shift).max(floor));
        }
    }
}
}

vectorised! {
/// `dy` over rows, from the gradient before the activation and the saved output.
pub(super) fn denormalise<E: Element>(dz: &[E], y: &[E], norm: &NormBackward, dy: &mut [E]) {
    let channels = norm.gain.len();
    let rows = dz.chunks_exact(channels).zip(y.chunks_exact(channels)).zip(dy.chunks_exact_mut(channels));
    for ((dz, y), dy) in rows {
        let (gain, slope, offset) = (&norm.gain[..channels], &norm.slope[..channels], &norm.offset[..channels]);
        let (dz, y, dy) = (&dz[..channels], &y[..channels], &mut dy[..channels]);
        for c in 0..channels {
            dy[c] = E::from_f32(gain[c] * dz[c].to_f32() + (slope[c] * y[c].to_f32() + offset[c]));
        }
    }
}
}

vectorised! {
/// Stores a product as saved output; adds its column sums and sums of squares.
pub(super) fn store_with_sums<E: Element>(
    c: &[f32], channels: usize, y: &mut [E], sums: &mut [f32], squares: &mut [f32],
) {
    let (sums, squares) = (&mut sums[..channels], &mut squares[..channels]);
    for (c, y) in c.chunks_exact(channels).zip(y.chunks_exact_mut(channels)) {
        let (c, y) = (&c[..channels], &mut y[..channels]);
        for i in 0..channels {
            let value = c[i];
            y[i] = E::from_f32(value);
            sums[i] += value;
            squares[i] += value * value;
        }
    }
}
}

vectorised! {
/// The gradient before an activation from the one behind it (`da`), masked where the activation is flat; adds the
/// column sums of `dz` and of `dz * (y - mean)`.
pub(super) fn mask_with_sums<E: Element>(
    da: &[f32], y: &[E], affine: &Affine, mean: &[f32], dz: &mut [E], sums: &mut [f32], products: &mut [f32],
) {
    let channels = affine.scale.len();
    let (scale, shift) = (&affine.scale[..channels], &affine.shift[..channels]);
    let (mean, sums, products) = (&mean[..channels], &mut sums[..channels], &mut products[..channels]);
    let floor = if affine.relu { 0.0 } else { f32::NEG_INFINITY };
    let rows = da.chunks_exact(channels).zip(y.chunks_exact(channels)).zip(dz.chunks_exact_mut(channels));
    for ((da, y), dz) in rows {
        let (da, y, dz) = (&da[..channels], &y[..channels], &mut dz[..channels]);
        for i in 0..channels {
            let saved = y[i].to_f32();
            let value = if saved * scale[i] + shift[i] > floor { da[i] } else { 0.0 };
            dz[i] = E::from_f32(value);
            sums[i] += value;
            products[i] += value * (saved - mean[i]);
        }
    }
}
}

/// Spreads boards for a convolution of odd size `kernel`: `[boards, 8 + 2h ranks, 8 files, kernel, channels]`, h halo ranks
/// of zeros on both sides; part `j` of a cell holds the cell `j - h` files to the right, zeros beyond the edge.
/// The halo and the edges of `spread` must be zero already.
pub(super) fn spread_board<E: Element>(board: &[E], channels: usize, kernel: usize, spread: &mut [E]) {
    let halo = kernel / 2;
    for rank in 0..8 {
        for file in 0..8 {
            let cell = &board[(rank * 8 + file) * channels..][..channels];
            for part in 0..kernel {
                // The cell that sees this one `part - halo` files to the right.
                let to = file + halo;
                if to < part || to - part >= 8 {
                    continue;
                }
                let row = (rank + halo) * 8 + to - part;
                spread[(row * kernel + part) * channels..][..channels].copy_from_slice(cell);
            }
        }
    }
}

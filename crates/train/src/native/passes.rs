//! Elementwise passes over rows of channels between the products: normalisation, activation and
//! their backward passes. Memory bounds their speed, so each reads and writes its data once. They
//! are compiled for each vector width; the width is chosen at run time.

#[cfg(target_arch = "x86_64")]
use eval::cpu::{CpuPath, is_permitted};

use super::matmul::Element;
use nets::Activation;

use super::activation::{curve, curve_slope, low_slope};

/// Defines a function (generic over one [`Element`] or not) that is compiled for AVX-512, AVX2 and
/// the plain target.
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
                    $crate::native::passes::VectorWidth::Avx512 => {
                        // SAFETY: `width` found the features that `wide` is compiled with.
                        return unsafe { wide $(::<$element>)? ($($argument),*) };
                    }
                    $crate::native::passes::VectorWidth::Avx2 => {
                        // SAFETY: `width` found the features that `narrow` is compiled with.
                        return unsafe { narrow $(::<$element>)? ($($argument),*) };
                    }
                    $crate::native::passes::VectorWidth::Baseline => {}
                }
            }
            body $(::<$element>)? ($($argument),*);
        }
    };
}
pub(super) use vectorised;

/// Vector extensions that the passes are compiled for; on other architectures only the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) enum VectorWidth {
    Avx512,
    Avx2,
    Baseline,
}

impl VectorWidth {
    /// The name of single precision on this width, for users.
    pub fn single_precision(self) -> &'static str {
        match self {
            Self::Avx512 => "f32 with AVX-512",
            Self::Avx2 => "f32 with AVX2",
            Self::Baseline => "f32",
        }
    }
}

/// The widest extension that the processor has and the user permits.
pub(super) fn width() -> VectorWidth {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("fma")
            && is_permitted(CpuPath::Avx512)
        {
            return VectorWidth::Avx512;
        }
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_permitted(CpuPath::Avx2)
        {
            return VectorWidth::Avx2;
        }
    }
    VectorWidth::Baseline
}

/// A channel's affine map before the activation, `scale * y + shift`, and the activation.
#[derive(Clone, Debug)]
pub(super) struct Affine {
    pub scale: Vec<f32>,
    pub shift: Vec<f32>,
    pub activation: Activation,
}

/// The backward pass of a norm: `dy = gain * dz + slope * y + offset` (without norm 1, 0, 0).
#[derive(Clone, Debug, Default)]
pub(super) struct NormBackward {
    pub gain: Vec<f32>,
    pub slope: Vec<f32>,
    pub offset: Vec<f32>,
}

/// Channels processed at once; channel counts are multiples of it.
const LANES: usize = 16;

/// Rows processed together, so that the values of a channel are loaded once for all of them.
const ROWS: usize = 4;

type Lanes = [f32; LANES];

/// Reads [`LANES`] numbers from `at` on.
#[inline(always)]
fn load<E: Element>(source: &[E], at: usize) -> Lanes {
    let source = &source[at..at + LANES];
    let mut lanes = [0.0; LANES];
    for (lane, value) in lanes.iter_mut().zip(source) {
        *lane = value.to_f32();
    }
    lanes
}

/// Writes [`LANES`] numbers from `at` on.
#[inline(always)]
fn store<E: Element>(target: &mut [E], at: usize, lanes: Lanes) {
    let target = &mut target[at..at + LANES];
    for (value, lane) in target.iter_mut().zip(lanes) {
        *value = E::from_f32(lane);
    }
}

/// Calls `$pass::<ROWS>` for groups of rows of `$channels` from `$row` on, and `$pass::<1>` for the
/// rest of `$rows`.
macro_rules! in_groups {
    ($rows:expr, |$row:ident, $group:ident| $pass:expr) => {{
        let rows = $rows;
        let mut $row = 0;
        while $row + ROWS <= rows {
            const $group: usize = ROWS;
            $pass;
            $row += ROWS;
        }
        while $row < rows {
            const $group: usize = 1;
            $pass;
            $row += 1;
        }
    }};
}

/// The affine maps of [`LANES`] channels from `c` on.
#[inline(always)]
fn maps(affine: &Affine, c: usize) -> (Lanes, Lanes) {
    (load(&affine.scale, c), load(&affine.shift, c))
}

/// Activates [`LANES`] numbers.
#[inline(always)]
fn activated<const CURVED: bool>(
    mut lanes: Lanes,
    (scale, shift): (Lanes, Lanes),
    activation: Activation,
    low: f32,
) -> Lanes {
    for i in 0..LANES {
        lanes[i] = lanes[i] * scale[i] + shift[i];
    }
    if CURVED {
        curve(activation, &mut lanes);
    } else {
        for lane in &mut lanes {
            *lane = if *lane > 0.0 { *lane } else { low * *lane };
        }
    }
    lanes
}

#[inline(always)]
fn activate_rows<E: Element, const R: usize, const CURVED: bool>(
    y: &[E],
    affine: &Affine,
    low: f32,
    row: usize,
    a: &mut [E],
) {
    let channels = affine.scale.len();
    for c in (0..channels).step_by(LANES) {
        let maps = maps(affine, c);
        for r in 0..R {
            let at = (row + r) * channels + c;
            store(a, at, activated::<CURVED>(load(y, at), maps, affine.activation, low));
        }
    }
}

vectorised! {
    /// `a = act(scale * y + shift)` over rows.
    pub(super) fn activate<E: Element>(y: &[E], affine: &Affine, a: &mut [E]) {
        let rows = y.len() / affine.scale.len();
        match low_slope(affine.activation) {
            Some(low) => in_groups!(rows, |row, GROUP| activate_rows::<E, GROUP, false>(y, affine, low, row, a)),
            None => in_groups!(rows, |row, GROUP| activate_rows::<E, GROUP, true>(y, affine, 1.0, row, a)),
        }
    }
}

/// Saved outputs with the map from them to activations.
#[derive(Debug)]
pub(super) struct SavedOutputs<'a, E> {
    pub y: &'a [E],
    pub affine: &'a Affine,
}

#[inline(always)]
fn sum_rows<E: Element, const R: usize, const FIRST: bool, const SECOND: bool>(
    (first, second): (&SavedOutputs<'_, E>, &SavedOutputs<'_, E>),
    (low, other_low): (f32, f32),
    row: usize,
    sum: &mut [E],
) {
    let channels = first.affine.scale.len();
    for c in (0..channels).step_by(LANES) {
        let (own, other) = (maps(first.affine, c), maps(second.affine, c));
        for r in 0..R {
            let at = (row + r) * channels + c;
            let mut lanes =
                activated::<FIRST>(load(first.y, at), own, first.affine.activation, low);
            let others =
                activated::<SECOND>(load(second.y, at), other, second.affine.activation, other_low);
            for i in 0..LANES {
                lanes[i] += others[i];
            }
            store(sum, at, lanes);
        }
    }
}

vectorised! {
    /// The sum of the activations of two layers, over rows.
    pub(super) fn sum_activated<E: Element>(first: &SavedOutputs<'_, E>, second: &SavedOutputs<'_, E>, sum: &mut [E]) {
        let rows = first.y.len() / first.affine.scale.len();
        let both = (first, second);
        match (low_slope(first.affine.activation), low_slope(second.affine.activation)) {
            (Some(low), Some(other)) => {
                in_groups!(rows, |row, GROUP| sum_rows::<E, GROUP, false, false>(both, (low, other), row, sum));
            }
            (Some(low), None) => {
                in_groups!(rows, |row, GROUP| sum_rows::<E, GROUP, false, true>(both, (low, 1.0), row, sum));
            }
            (None, Some(other)) => {
                in_groups!(rows, |row, GROUP| sum_rows::<E, GROUP, true, false>(both, (1.0, other), row, sum));
            }
            (None, None) => {
                in_groups!(rows, |row, GROUP| sum_rows::<E, GROUP, true, true>(both, (1.0, 1.0), row, sum));
            }
        }
    }
}

#[inline(always)]
fn denormalise_rows<E: Element, const R: usize>(
    dz: &[E],
    y: &[E],
    norm: &NormBackward,
    row: usize,
    dy: &mut [E],
) {
    let channels = norm.gain.len();
    for c in (0..channels).step_by(LANES) {
        let (gain, slope, offset) =
            (load(&norm.gain, c), load(&norm.slope, c), load(&norm.offset, c));
        for r in 0..R {
            let at = (row + r) * channels + c;
            let (mut lanes, y) = (load(dz, at), load(y, at));
            for i in 0..LANES {
                lanes[i] = gain[i] * lanes[i] + (slope[i] * y[i] + offset[i]);
            }
            store(dy, at, lanes);
        }
    }
}

vectorised! {
    /// The backward pass of a norm over rows: `dy` from the gradient `dz` and the saved outputs.
    pub(super) fn denormalise<E: Element>(dz: &[E], y: &[E], norm: &NormBackward, dy: &mut [E]) {
        in_groups!(dz.len() / norm.gain.len(), |row, GROUP| {
            denormalise_rows::<E, GROUP>(dz, y, norm, row, dy)
        });
    }
}

/// Two sums for each channel.
#[derive(Debug)]
pub(super) struct ColumnSums<'a> {
    pub first: &'a mut [f32],
    pub second: &'a mut [f32],
}

#[inline(always)]
fn store_rows<E: Element, const R: usize>(
    c: &[f32],
    row: usize,
    y: &mut [E],
    sums: &mut ColumnSums<'_>,
) {
    let channels = sums.first.len();
    for column in (0..channels).step_by(LANES) {
        let (mut first, mut second) = (load(sums.first, column), load(sums.second, column));
        for r in 0..R {
            let at = (row + r) * channels + column;
            let lanes = load(c, at);
            for i in 0..LANES {
                first[i] += lanes[i];
                second[i] += lanes[i] * lanes[i];
            }
            store(y, at, lanes);
        }
        store(sums.first, column, first);
        store(sums.second, column, second);
    }
}

vectorised! {
    /// Stores a product as saved outputs; adds its sums and sums of squares by channel.
    pub(super) fn store_with_sums<E: Element>(c: &[f32], y: &mut [E], sums: &mut ColumnSums<'_>) {
        in_groups!(c.len() / sums.first.len(), |row, GROUP| store_rows::<E, GROUP>(c, row, y, sums));
    }
}

/// The gradient with respect to activations, and the saved outputs that decide their slopes.
#[derive(Debug)]
pub(super) struct ActivationGradient<'a, E> {
    /// Gradient with respect to the activations.
    pub da: &'a [f32],
    /// Saved outputs.
    pub y: &'a [E],
    pub affine: &'a Affine,
    pub mean: &'a [f32],
}

#[inline(always)]
fn activation_backward_rows<E: Element, const R: usize, const CURVED: bool>(
    from: &ActivationGradient<'_, E>,
    low: f32,
    row: usize,
    dz: &mut [E],
    sums: &mut ColumnSums<'_>,
) {
    let channels = sums.first.len();
    for column in (0..channels).step_by(LANES) {
        let (scale, shift) = (load(&from.affine.scale, column), load(&from.affine.shift, column));
        let mean = load(from.mean, column);
        let (mut first, mut second) = (load(sums.first, column), load(sums.second, column));
        for r in 0..R {
            let at = (row + r) * channels + column;
            let (mut lanes, y) = (load(from.da, at), load(from.y, at));
            let mut z = y;
            for i in 0..LANES {
                z[i] = z[i] * scale[i] + shift[i];
            }
            if CURVED {
                curve_slope(from.affine.activation, &mut z);
            }
            for i in 0..LANES {
                lanes[i] *= if CURVED {
                    z[i]
                } else if z[i] > 0.0 {
                    1.0
                } else {
                    low
                };
                first[i] += lanes[i];
                second[i] += lanes[i] * (y[i] - mean[i]);
            }
            store(dz, at, lanes);
        }
        store(sums.first, column, first);
        store(sums.second, column, second);
    }
}

vectorised! {
    /// The backward pass of an activation: `dz` is `da` times the slope of the activation. Adds the
    /// sums of `dz` and of `dz * (y - mean)` by channel.
    pub(super) fn activation_backward<E: Element>(from: &ActivationGradient<'_, E>, dz: &mut [E], sums: &mut ColumnSums<'_>) {
        let rows = from.da.len() / sums.first.len();
        match low_slope(from.affine.activation) {
            Some(low) => in_groups!(rows, |row, GROUP| activation_backward_rows::<E, GROUP, false>(from, low, row, dz, sums)),
            None => in_groups!(rows, |row, GROUP| activation_backward_rows::<E, GROUP, true>(from, 1.0, row, dz, sums)),
        }
    }
}

vectorised! {
    /// `sum += source`, elementwise.
    pub(super) fn add<E: Element>(source: &[E], sum: &mut [f32]) {
        for (sum, value) in sum.iter_mut().zip(source) {
            *sum += value.to_f32();
        }
    }
}

vectorised! {
    /// Converts from single precision, elementwise.
    pub(super) fn narrow<E: Element>(source: &[f32], target: &mut [E]) {
        for (target, &value) in target.iter_mut().zip(source) {
            *target = E::from_f32(value);
        }
    }
}

vectorised! {
    /// Converts to single precision, elementwise.
    pub(super) fn widen<E: Element>(source: &[E], target: &mut [f32]) {
        for (target, value) in target.iter_mut().zip(source) {
            *target = value.to_f32();
        }
    }
}

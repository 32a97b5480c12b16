//! Matrix products of any size, forward and for weight gradients, in bf16 on the tile unit and in
//! `f32` on every CPU. Evaluation needs fixed shapes only; its products are in `eval::cpu`.
//!
//! Column counts and inner dimensions are multiples of [`BLOCK`]; callers pad with zeros. A
//! convolution is a product whose inner dimension is cut into *taps*: tap `t` reads rows that are
//! `t * tap_rows` rows further down.

mod single;
mod tiled;
#[cfg(target_arch = "x86_64")]
mod tiles;
#[cfg(not(target_arch = "x86_64"))]
#[path = "matmul/no_tiles.rs"]
mod tiles;

/// Columns, inner dimensions and rows are padded to multiples of this.
pub const BLOCK: usize = 32;

/// The next multiple of [`BLOCK`].
#[must_use]
pub const fn padded(size: usize) -> usize {
    size.next_multiple_of(BLOCK)
}

/// A bf16 number: the upper half of an `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// Zero-filled memory that is aligned to a cache line.
#[derive(Clone, Debug, Default)]
pub struct Buffer<E> {
    data: Vec<E>,
    start: usize,
    len: usize,
}

impl<E: Copy + Default> Buffer<E> {
    /// `len` zeros.
    #[must_use]
    pub fn zeros(len: usize) -> Self {
        let data = vec![E::default(); len + 64];
        // `align_offset` may fail with usize::MAX in theory; alignment only affects speed.
        let start = Some(data.as_ptr().align_offset(64)).filter(|&start| start < 64).unwrap_or(0);
        eval::use_large_pages(&data);
        Self { data, start, len }
    }

    /// Makes room for at least `len` elements; when it grows, the content becomes zeros.
    pub fn reserve(&mut self, len: usize) {
        if self.len < len {
            *self = Self::zeros(len);
        }
    }
}

impl<E> std::ops::Deref for Buffer<E> {
    type Target = [E];
    fn deref(&self) -> &[E] {
        &self.data[self.start..self.start + self.len]
    }
}

impl<E> std::ops::DerefMut for Buffer<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        &mut self.data[self.start..self.start + self.len]
    }
}

/// Addresses, strides and counts of one 32x32 block of a product on the tile unit; strides, steps and
/// jumps are in bytes. The assembly in `tiles` reads it by field offset.
#[repr(C)]
struct TileBlock {
    pub c: *mut f32,
    pub c_stride: usize,
    pub accumulate: usize,
    pub a: *const Bf16,
    /// From the upper 16 rows of A to the lower 16.
    pub a_low: usize,
    pub a_stride: usize,
    pub a_step: usize,
    /// Added after each segment.
    pub a_jump: usize,
    pub b: *const Bf16,
    /// From the left 16 columns of B to the right 16.
    pub b_right: usize,
    pub b_step: usize,
    pub b_jump: usize,
    pub steps: usize,
    pub segments: usize,
}

/// The layout of a product's left matrix.
#[derive(Clone, Copy, Debug)]
pub struct Taps {
    /// Elements between two rows.
    pub stride: usize,
    /// Number of taps.
    pub count: usize,
    /// Rows from one tap to the next.
    pub rows: usize,
    /// Elements of a row that one tap reads: a multiple of [`BLOCK`].
    pub inner: usize,
}

/// The rows that a weight gradient sums over: the left side has `groups` groups of `rows` rows. On
/// the right each group has `(taps - 1) * tap_rows` more rows, and tap `t` begins `t * tap_rows`
/// rows down.
#[derive(Clone, Copy, Debug)]
pub struct WeightGradient {
    pub groups: usize,
    /// A multiple of [`BLOCK`].
    pub rows: usize,
    pub taps: usize,
    /// Even.
    pub tap_rows: usize,
}

impl WeightGradient {
    fn right_rows(&self) -> usize {
        self.rows + (self.taps - 1) * self.tap_rows
    }
}

/// The element type of activations and packed weights, with its products.
pub trait Element: Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// The tile configuration, which a thread holds while it multiplies; empty without tiles.
    type Guard;

    /// Prepares this thread for products.
    fn guard() -> Self::Guard;

    fn from_f32(value: f32) -> Self;

    fn to_f32(self) -> f32;

    /// Packs a row-major `[k, n]` matrix for the right side of [`Element::product`].
    fn pack_weights(source: &[f32], k: usize, n: usize, packed: &mut [Self]);

    /// `c[m, n] = sum over taps and inner elements of a x b`, `c` row-major. `a` and `c` must have
    /// `padded(m)` rows; rows `m..` of `a` may hold anything, rows `m..` of `c` are overwritten.
    fn product(
        guard: &Self::Guard,
        operands: (&[Self], Taps, &[Self]),
        m: usize,
        n: usize,
        c: &mut [f32],
    );

    /// Packs row-major `[rows, columns]` for the left side of [`Element::add_weight_gradient`].
    fn pack_left(source: &[Self], rows: usize, columns: usize, packed: &mut [Self]);

    /// Packs row-major `[rows, columns]` for the right side of [`Element::add_weight_gradient`].
    fn pack_right(source: &[Self], rows: usize, columns: usize, packed: &mut [Self]);

    /// `c[t, i, j] += sum over groups and rows of left[row, i] * right[row + t * tap_rows, j]`.
    fn add_weight_gradient(
        guard: &Self::Guard,
        left: &[Self],
        right: &[Self],
        shape: WeightGradient,
        m: usize,
        n: usize,
        c: &mut [f32],
    );
}

fn check_product(a: usize, taps: Taps, b: usize, m: usize, n: usize, c: usize) {
    let rows = padded(m).max(1);
    assert!(taps.inner.is_multiple_of(BLOCK) && n.is_multiple_of(BLOCK) && taps.count > 0);
    assert!(a >= (rows - 1 + (taps.count - 1) * taps.rows) * taps.stride + taps.inner);
    assert!(b >= taps.count * taps.inner * n && c >= padded(m) * n);
}

fn check_weight_gradient(
    left: usize,
    right: usize,
    shape: WeightGradient,
    m: usize,
    n: usize,
    c: usize,
) {
    assert!(shape.rows.is_multiple_of(BLOCK) && shape.tap_rows.is_multiple_of(2) && shape.taps > 0);
    assert!(m.is_multiple_of(BLOCK) && n.is_multiple_of(BLOCK));
    assert!(
        left >= shape.groups * shape.rows * m && right >= shape.groups * shape.right_rows() * n
    );
    assert!(c >= shape.taps * m * n);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small integers, so that every order of summation gives the same sum.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 9973 % 7) as f32 - 3.0).collect()
    }

    fn stored<E: Element>(values: &[f32]) -> Buffer<E> {
        let mut buffer = Buffer::zeros(values.len());
        for (out, &value) in buffer.iter_mut().zip(values) {
            *out = E::from_f32(value);
        }
        buffer
    }

    fn products_agree<E: Element>() {
        let guard = E::guard();
        for (m, n, inner, count, rows, stride) in [
            (32, 32, 32, 1, 0, 32),
            (64, 96, 64, 3, 8, 96),
            (5, 32, 160, 1, 0, 160),
            (33, 64, 32, 2, 3, 64),
        ] {
            let a = numbers((padded(m) + (count - 1) * rows) * stride, 1);
            let k = count * inner;
            let b = numbers(k * n, 2);
            let mut packed = Buffer::zeros(k * n);
            E::pack_weights(&b, k, n, &mut packed);
            let mut c = Buffer::zeros(padded(m) * n);
            let a_stored = stored::<E>(&a);
            let taps = Taps { stride, count, rows, inner };
            E::product(&guard, (&a_stored, taps, &packed), m, n, &mut c);
            for i in 0..m {
                for j in 0..n {
                    let sum: f32 = (0..k)
                        .map(|x| a[(i + x / inner * rows) * stride + x % inner] * b[x * n + j])
                        .sum();
                    assert_eq!(c[i * n + j], sum, "m {m} n {n} at {i}, {j}");
                }
            }
        }
    }

    fn weight_gradients_agree<E: Element>() {
        let guard = E::guard();
        for (m, n, shape) in [
            (32, 32, WeightGradient { groups: 1, rows: 32, taps: 1, tap_rows: 0 }),
            (64, 96, WeightGradient { groups: 3, rows: 64, taps: 3, tap_rows: 8 }),
            (96, 32, WeightGradient { groups: 2, rows: 32, taps: 2, tap_rows: 2 }),
        ] {
            let (rows, right_rows) = (shape.groups * shape.rows, shape.groups * shape.right_rows());
            let (left, right) = (numbers(rows * m, 3), numbers(right_rows * n, 4));
            let (mut packed_left, mut packed_right) =
                (Buffer::zeros(rows * m), Buffer::zeros(right_rows * n));
            E::pack_left(&stored::<E>(&left), rows, m, &mut packed_left);
            E::pack_right(&stored::<E>(&right), right_rows, n, &mut packed_right);
            let mut c = Buffer::zeros(shape.taps * m * n);
            c.fill(1.0);
            E::add_weight_gradient(&guard, &packed_left, &packed_right, shape, m, n, &mut c);
            for tap in 0..shape.taps {
                for i in 0..m {
                    for j in 0..n {
                        let sum: f32 = (0..rows)
                            .map(|k| {
                                let group = k / shape.rows * shape.right_rows() + k % shape.rows;
                                left[k * m + i] * right[(group + tap * shape.tap_rows) * n + j]
                            })
                            .sum();
                        assert_eq!(
                            c[(tap * m + i) * n + j],
                            sum + 1.0,
                            "m {m} n {n} at {tap}, {i}, {j}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_agree_with_plain_products() {
        products_agree::<Bf16>();
        weight_gradients_agree::<Bf16>();
    }

    #[test]
    fn single_precision_agrees_with_plain_products() {
        products_agree::<f32>();
        weight_gradients_agree::<f32>();
    }
}

//! Matrix products of bf16 numbers on the tile unit, or in single precision on CPUs without one.

use super::{
    BLOCK, Bf16, Element, Taps, TileBlock, WeightGradient, check_product, check_weight_gradient,
    single::portable, tiles,
};
use eval::cpu::amx::{self, Tiles};

impl Element for Bf16 {
    /// `None` without a tile unit: the products then run in single precision.
    type Guard = Option<Tiles>;

    fn guard() -> Option<Tiles> {
        Tiles::configure()
    }

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        Self((bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16)
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    fn pack_weights(source: &[f32], k: usize, n: usize, packed: &mut [Bf16]) {
        for (panel, packed) in packed[..k * n].chunks_exact_mut(k * BLOCK).enumerate() {
            for (pair, rows) in source[..k * n].chunks_exact(2 * n).enumerate() {
                let (even, odd) = rows.split_at(n);
                for half in 0..2 {
                    let first = panel * BLOCK + half * 16;
                    let out = &mut packed[amx::b_index(2 * pair, half * 16)..][..32];
                    let sources = even[first..][..16].iter().zip(&odd[first..][..16]);
                    for (out, (&even, &odd)) in out.chunks_exact_mut(2).zip(sources) {
                        out[0] = Self::from_f32(even);
                        out[1] = Self::from_f32(odd);
                    }
                }
            }
        }
    }

    fn product(
        guard: &Option<Tiles>,
        (a, taps, b): (&[Bf16], Taps, &[Bf16]),
        m: usize,
        n: usize,
        c: &mut [f32],
    ) {
        check_product(a.len(), taps, b.len(), m, n, c.len());
        if guard.is_none() {
            return plain_product(a, taps, b, m, n, c);
        }
        let k = taps.count * taps.inner;
        for column in (0..n).step_by(BLOCK) {
            let b = &b[column * k..][..k * BLOCK];
            for row in (0..m).step_by(BLOCK) {
                let a = &a[row * taps.stride..];
                let c = &mut c[row * n + column..];
                let block = TileBlock {
                    c: c.as_mut_ptr(),
                    c_stride: 4 * n,
                    accumulate: 0,
                    a: a.as_ptr(),
                    a_low: 16 * 2 * taps.stride,
                    a_stride: 2 * taps.stride,
                    a_step: 2 * BLOCK,
                    a_jump: (2 * taps.rows * taps.stride).wrapping_sub(2 * taps.inner),
                    b: b.as_ptr(),
                    b_right: 1024,
                    b_step: 2048,
                    b_jump: 0,
                    steps: taps.inner / BLOCK,
                    segments: taps.count,
                };
                // SAFETY: sizes were checked above; `guard` says that the tiles are configured.
                unsafe { tiles::block(&block) };
            }
        }
    }

    fn pack_left(source: &[Bf16], rows: usize, columns: usize, packed: &mut [Bf16]) {
        assert!(rows.is_multiple_of(BLOCK) && columns.is_multiple_of(BLOCK));
        assert!(source.len() >= rows * columns && packed.len() >= rows * columns);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature is there and the sizes were checked.
            unsafe { tiles::pack_left(source, rows, columns, packed) };
            return;
        }
        let steps = rows / BLOCK;
        for row in 0..rows {
            for column in 0..columns {
                let tile = (column / BLOCK * steps + row / BLOCK) * 2 + column % BLOCK / 16;
                packed[tile * 512 + column % 16 * 32 + row % 32] = source[row * columns + column];
            }
        }
    }

    fn pack_right(source: &[Bf16], rows: usize, columns: usize, packed: &mut [Bf16]) {
        assert!(rows.is_multiple_of(2) && columns.is_multiple_of(BLOCK));
        assert!(source.len() >= rows * columns && packed.len() >= rows * columns);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature is there and the sizes were checked.
            unsafe { tiles::pack_right(source, rows, columns, packed) };
            return;
        }
        for row in 0..rows {
            for column in 0..columns {
                packed[(column / 16 * (rows / 2) + row / 2) * 32 + column % 16 * 2 + row % 2] =
                    source[row * columns + column];
            }
        }
    }

    fn add_weight_gradient(
        guard: &Option<Tiles>,
        left: &[Bf16],
        right: &[Bf16],
        shape: WeightGradient,
        m: usize,
        n: usize,
        c: &mut [f32],
    ) {
        check_weight_gradient(left.len(), right.len(), shape, m, n, c.len());
        if guard.is_none() {
            return plain_weight_gradient(left, right, shape, m, n, c);
        }
        let steps = shape.groups * shape.rows / BLOCK;
        // Elements of one 16-column strip of the right side.
        let strip = shape.groups * shape.right_rows() / 2 * 32;
        for row in (0..m).step_by(BLOCK) {
            let left = &left[row / BLOCK * steps * 1024..][..steps * 1024];
            for column in (0..n).step_by(BLOCK) {
                let right = &right[column / 16 * strip..][..2 * strip];
                for tap in 0..shape.taps {
                    let right = &right[tap * shape.tap_rows / 2 * 32..];
                    let c = &mut c[(tap * m + row) * n + column..];
                    let block = TileBlock {
                        c: c.as_mut_ptr(),
                        c_stride: 4 * n,
                        accumulate: 1,
                        a: left.as_ptr(),
                        a_low: 1024,
                        a_stride: 64,
                        a_step: 2048,
                        a_jump: 0,
                        b: right.as_ptr(),
                        b_right: 2 * strip,
                        b_step: 1024,
                        b_jump: (shape.right_rows() - shape.rows) / 2 * 64,
                        steps: shape.rows / BLOCK,
                        segments: shape.groups,
                    };
                    // SAFETY: sizes were checked above; `guard` says that the tiles are configured.
                    unsafe { tiles::block(&block) };
                }
            }
        }
    }
}

/// [`Element::product`] without tiles: unpacks the operands and multiplies in single precision.
fn plain_product(a: &[Bf16], taps: Taps, b: &[Bf16], m: usize, n: usize, c: &mut [f32]) {
    let kernel = portable::kernel();
    let k = taps.count * taps.inner;
    let (mut left, mut right) = (vec![0.0; BLOCK * taps.inner], vec![0.0; k * BLOCK]);
    for column in (0..n).step_by(BLOCK) {
        let b = &b[column * k..][..k * BLOCK];
        for (inner, right) in right.chunks_exact_mut(BLOCK).enumerate() {
            for (half, right) in right.chunks_exact_mut(16).enumerate() {
                let pairs = &b[amx::b_index(inner & !1, half * 16)..][..32];
                for (right, pair) in right.iter_mut().zip(pairs.chunks_exact(2)) {
                    *right = pair[inner & 1].to_f32();
                }
            }
        }
        for row in (0..m).step_by(BLOCK) {
            for tap in 0..taps.count {
                for (i, left) in left.chunks_exact_mut(taps.inner).enumerate() {
                    let a = &a[(row + i + tap * taps.rows) * taps.stride..];
                    left.iter_mut().zip(a).for_each(|(left, a)| *left = a.to_f32());
                }
                let c = &mut c[row * n + column..][..(BLOCK - 1) * n + BLOCK];
                // SAFETY: 32 rows of `inner` on the left, `inner` rows of 32 on the right, 32 rows
                // in C.
                unsafe {
                    kernel(&portable::Operands {
                        a: left.as_ptr(),
                        row_stride: taps.inner,
                        inner_stride: 1,
                        b: right[tap * taps.inner * BLOCK..][..taps.inner * BLOCK].as_ptr(),
                        b_stride: BLOCK,
                        inner: taps.inner,
                        c: c.as_mut_ptr(),
                        c_stride: n,
                        accumulate: tap > 0,
                    });
                }
            }
        }
    }
}

/// [`Element::add_weight_gradient`] without tiles: unpacks the operands and multiplies in single
/// precision.
fn plain_weight_gradient(
    left: &[Bf16],
    right: &[Bf16],
    shape: WeightGradient,
    m: usize,
    n: usize,
    c: &mut [f32],
) {
    let kernel = portable::kernel();
    let (rows, right_rows) = (shape.groups * shape.rows, shape.groups * shape.right_rows());
    let (mut a, mut b) = (vec![0.0; BLOCK * rows], vec![0.0; right_rows * BLOCK]);
    for row in (0..m).step_by(BLOCK) {
        let left = &left[row * rows..][..BLOCK * rows];
        for (i, a) in a.chunks_exact_mut(rows).enumerate() {
            for (step, a) in a.chunks_exact_mut(BLOCK).enumerate() {
                let tile = &left[(step * 2 + i / 16) * 512 + i % 16 * 32..][..32];
                a.iter_mut().zip(tile).for_each(|(a, left)| *a = left.to_f32());
            }
        }
        for column in (0..n).step_by(BLOCK) {
            let right = &right[column * right_rows..][..BLOCK * right_rows];
            for (line, b) in b.chunks_exact_mut(BLOCK).enumerate() {
                for (half, b) in b.chunks_exact_mut(16).enumerate() {
                    let pairs = &right[half * 16 * right_rows + line / 2 * 32..][..32];
                    for (b, pair) in b.iter_mut().zip(pairs.chunks_exact(2)) {
                        *b = pair[line & 1].to_f32();
                    }
                }
            }
            for (tap, group) in
                (0..shape.taps).flat_map(|tap| (0..shape.groups).map(move |group| (tap, group)))
            {
                let first = group * shape.right_rows() + tap * shape.tap_rows;
                let c = &mut c[(tap * m + row) * n + column..][..(BLOCK - 1) * n + BLOCK];
                // SAFETY: 32 rows on the left, `shape.rows` rows of 32 on the right, 32 rows in C.
                unsafe {
                    kernel(&portable::Operands {
                        a: a[group * shape.rows..][..(BLOCK - 1) * rows + shape.rows].as_ptr(),
                        row_stride: rows,
                        inner_stride: 1,
                        b: b[first * BLOCK..][..shape.rows * BLOCK].as_ptr(),
                        b_stride: BLOCK,
                        inner: shape.rows,
                        c: c.as_mut_ptr(),
                        c_stride: n,
                        accumulate: true,
                    });
                }
            }
        }
    }
}

//! Matrix products in single precision, for every CPU.

use super::{BLOCK, Element, Taps, WeightGradient, check_product, check_weight_gradient};

impl Element for f32 {
    type Guard = ();

    fn guard() {}

    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }

    fn pack_weights(source: &[f32], k: usize, n: usize, packed: &mut [f32]) {
        for (panel, packed) in packed[..k * n].chunks_exact_mut(k * BLOCK).enumerate() {
            for (row, packed) in source.chunks_exact(n).zip(packed.chunks_exact_mut(BLOCK)) {
                packed.copy_from_slice(&row[panel * BLOCK..][..BLOCK]);
            }
        }
    }

    fn product((): &(), (a, taps, b): (&[f32], Taps, &[f32]), m: usize, n: usize, c: &mut [f32]) {
        check_product(a.len(), taps, b.len(), m, n, c.len());
        let kernel = portable::kernel();
        let k = taps.count * taps.inner;
        for column in (0..n).step_by(BLOCK) {
            for row in (0..m).step_by(BLOCK) {
                for tap in 0..taps.count {
                    let a = &a[(row + tap * taps.rows) * taps.stride..];
                    let b = &b[column * k + tap * taps.inner * BLOCK..];
                    let c = &mut c[row * n + column..];
                    // SAFETY: the sizes were checked above.
                    unsafe {
                        kernel(&portable::Operands {
                            a: a.as_ptr(),
                            row_stride: taps.stride,
                            inner_stride: 1,
                            b: b.as_ptr(),
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

    fn pack_left(source: &[f32], rows: usize, columns: usize, packed: &mut [f32]) {
        packed[..rows * columns].copy_from_slice(&source[..rows * columns]);
    }

    fn pack_right(source: &[f32], rows: usize, columns: usize, packed: &mut [f32]) {
        packed[..rows * columns].copy_from_slice(&source[..rows * columns]);
    }

    fn add_weight_gradient(
        (): &(),
        left: &[f32],
        right: &[f32],
        shape: WeightGradient,
        m: usize,
        n: usize,
        c: &mut [f32],
    ) {
        check_weight_gradient(left.len(), right.len(), shape, m, n, c.len());
        let kernel = portable::kernel();
        for tap in 0..shape.taps {
            for row in (0..m).step_by(BLOCK) {
                for column in (0..n).step_by(BLOCK) {
                    for group in 0..shape.groups {
                        let a = &left[group * shape.rows * m + row..];
                        let first = group * shape.right_rows() + tap * shape.tap_rows;
                        let b = &right[first * n + column..];
                        let c = &mut c[(tap * m + row) * n + column..];
                        // SAFETY: the sizes were checked above.
                        unsafe {
                            kernel(&portable::Operands {
                                a: a.as_ptr(),
                                row_stride: 1,
                                inner_stride: m,
                                b: b.as_ptr(),
                                b_stride: n,
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
    }
}

pub(super) mod portable {
    //! 32x32 blocks in `f32`, compiled for each vector width.

    use super::BLOCK;

    pub struct Operands {
        pub a: *const f32,
        pub row_stride: usize,
        pub inner_stride: usize,
        pub b: *const f32,
        pub b_stride: usize,
        pub inner: usize,
        pub c: *mut f32,
        pub c_stride: usize,
        pub accumulate: bool,
    }

    /// # Safety
    /// A must be valid for 32 rows, B for `inner` rows of 32, C for 32 rows of 32.
    pub type Kernel = unsafe fn(&Operands);

    #[inline(always)]
    unsafe fn block<const ROWS: usize, const COLUMNS: usize, const FUSED: bool>(o: &Operands) {
        for row in (0..BLOCK).step_by(ROWS) {
            for column in (0..BLOCK).step_by(COLUMNS) {
                let mut sums = [[0.0_f32; COLUMNS]; ROWS];
                // SAFETY: the caller vouches for the whole 32x32 block.
                unsafe {
                    let a = o.a.add(row * o.row_stride);
                    let b = o.b.add(column);
                    let c = o.c.add(row * o.c_stride + column);
                    if o.accumulate {
                        for (i, sums) in sums.iter_mut().enumerate() {
                            *sums = c.add(i * o.c_stride).cast::<[f32; COLUMNS]>().read();
                        }
                    }
                    for k in 0..o.inner {
                        let b = b.add(k * o.b_stride).cast::<[f32; COLUMNS]>().read();
                        for (i, sums) in sums.iter_mut().enumerate() {
                            let a = a.add(i * o.row_stride + k * o.inner_stride).read();
                            for (sum, b) in sums.iter_mut().zip(b) {
                                *sum = if FUSED { a.mul_add(b, *sum) } else { *sum + a * b };
                            }
                        }
                    }
                    for (i, sums) in sums.iter().enumerate() {
                        c.add(i * o.c_stride).cast::<[f32; COLUMNS]>().write(*sums);
                    }
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
    unsafe fn wide(o: &Operands) {
        // SAFETY: as the caller says.
        unsafe { block::<8, 32, true>(o) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn narrow(o: &Operands) {
        // SAFETY: as the caller says.
        unsafe { block::<4, 16, true>(o) }
    }

    unsafe fn plain(o: &Operands) {
        // SAFETY: as the caller says.
        unsafe { block::<4, 8, false>(o) }
    }

    pub fn kernel() -> Kernel {
        #[cfg(target_arch = "x86_64")]
        {
            use eval::cpu::{CpuPath, is_permitted};
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512vl")
                && is_permitted(CpuPath::Avx512)
            {
                return wide;
            }
            if is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_permitted(CpuPath::Avx2)
            {
                return narrow;
            }
        }
        plain
    }
}

//! Matrix products of any size, forward and for weight gradients, in bf16 on the tile unit and in `f32` anywhere:
//! what training needs beyond the fixed shapes of play.
//!
//! Sizes of columns and inner dimensions are multiples of [`BLOCK`]; callers pad with zeros. A convolution is a
//! product whose inner dimension is cut into *taps*: tap `t` reads the rows `t * tap_rows` further down.

use super::amx::{self, Tiles};

/// Columns, inner steps and rows come in multiples of this.
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

/// Zero-filled memory that begins at a cache line.
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
        // `align_offset` may give up (usize::MAX) in theory; alignment is only a matter of speed.
        let start = Some(data.as_ptr().align_offset(64)).filter(|&start| start < 64).unwrap_or(0);
        use_large_pages(&data);
        Self { data, start, len }
    }

    /// Makes room for at least `len` elements; when it grows, the content becomes zeros.
    pub fn reserve(&mut self, len: usize) {
        if self.len < len {
            *self = Self::zeros(len);
        }
    }
}

/// Asks for large pages where much memory is about to be touched: four times as fast to walk through.
fn use_large_pages<E>(data: &[E]) {
    #[cfg(target_os = "linux")]
    {
        const LARGE: usize = 2 << 20;
        let begin = (data.as_ptr() as usize).next_multiple_of(LARGE);
        let end = (data.as_ptr() as usize + size_of_val(data)) / LARGE * LARGE;
        if begin + LARGE <= end {
            // SAFETY: advice on pages that lie wholly inside this allocation; it changes no content. A refusal is no loss.
            unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = data;
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

/// How a product reads its left matrix.
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

/// The sum over rows of a weight gradient: `groups` of `rows` rows on the left; on the right each group has
/// `(taps - 1) * tap_rows` rows more, and tap `t` begins `t * tap_rows` rows down.
#[derive(Clone, Copy, Debug)]
pub struct Gathering {
    pub groups: usize,
    /// A multiple of [`BLOCK`].
    pub rows: usize,
    pub taps: usize,
    /// Even.
    pub tap_rows: usize,
}

impl Gathering {
    fn right_rows(&self) -> usize {
        self.rows + (self.taps - 1) * self.tap_rows
    }
}

/// What activations and packed weights are stored as, with the products over it.
pub trait Element: Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// What a thread must hold while it multiplies.
    type Unit;

    /// Prepares this thread.
    fn unit() -> Self::Unit;

    fn from_f32(value: f32) -> Self;

    fn to_f32(self) -> f32;

    /// Packs a row-major `[k, n]` matrix for the right side of [`Element::product`].
    fn pack_weights(source: &[f32], k: usize, n: usize, packed: &mut [Self]);

    /// `c[m, n] = sum over taps and inner elements of a x b`, `c` row-major. `a` and `c` must hold `padded(m)` rows;
    /// what they hold in rows `m..` does not matter and is overwritten.
    fn product(unit: &Self::Unit, a: &[Self], taps: Taps, b: &[Self], m: usize, n: usize, c: &mut [f32]);

    /// Packs row-major `[rows, columns]` for the left side of [`Element::gather`].
    fn pack_left(source: &[Self], rows: usize, columns: usize, packed: &mut [Self]);

    /// Packs row-major `[rows, columns]` for the right side of [`Element::gather`].
    fn pack_right(source: &[Self], rows: usize, columns: usize, packed: &mut [Self]);

    /// `c[t, i, j] += sum over groups and rows of left[row, i] * right[row + t * tap_rows, j]`.
    fn gather(
        unit: &Self::Unit,
        left: &[Self],
        right: &[Self],
        shape: Gathering,
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

fn check_gather(left: usize, right: usize, shape: Gathering, m: usize, n: usize, c: usize) {
    assert!(shape.rows.is_multiple_of(BLOCK) && shape.tap_rows.is_multiple_of(2) && shape.taps > 0);
    assert!(m.is_multiple_of(BLOCK) && n.is_multiple_of(BLOCK));
    assert!(left >= shape.groups * shape.rows * m && right >= shape.groups * shape.right_rows() * n);
    assert!(c >= shape.taps * m * n);
}

impl Element for f32 {
    type Unit = ();

    fn unit() {}

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

    fn product((): &(), a: &[f32], taps: Taps, b: &[f32], m: usize, n: usize, c: &mut [f32]) {
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

    fn gather((): &(), left: &[f32], right: &[f32], shape: Gathering, m: usize, n: usize, c: &mut [f32]) {
        check_gather(left.len(), right.len(), shape, m, n, c.len());
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

mod portable {
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
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
                return wide;
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return narrow;
            }
        }
        plain
    }
}

impl Element for Bf16 {
    /// `None` where there is no tile unit: the products still run, slowly.
    type Unit = Option<Tiles>;

    fn unit() -> Option<Tiles> {
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

    fn product(unit: &Option<Tiles>, a: &[Bf16], taps: Taps, b: &[Bf16], m: usize, n: usize, c: &mut [f32]) {
        check_product(a.len(), taps, b.len(), m, n, c.len());
        let k = taps.count * taps.inner;
        for column in (0..n).step_by(BLOCK) {
            let b = &b[column * k..][..k * BLOCK];
            for row in (0..m).step_by(BLOCK) {
                let a = &a[row * taps.stride..];
                let c = &mut c[row * n + column..];
                if unit.is_some() {
                    let walk = tiles::Walk {
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
                    // SAFETY: sizes were checked above; `unit` says that the tiles are configured.
                    unsafe { tiles::block(&walk) };
                } else {
                    plain_product(a, taps, b, n, c);
                }
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

    fn gather(
        unit: &Option<Tiles>,
        left: &[Bf16],
        right: &[Bf16],
        shape: Gathering,
        m: usize,
        n: usize,
        c: &mut [f32],
    ) {
        check_gather(left.len(), right.len(), shape, m, n, c.len());
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
                    if unit.is_some() {
                        let walk = tiles::Walk {
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
                        // SAFETY: sizes were checked above; `unit` says that the tiles are configured.
                        unsafe { tiles::block(&walk) };
                    } else {
                        plain_gather(left, right, shape, strip, n, c);
                    }
                }
            }
        }
    }
}

/// One 32x32 block of [`Element::product`] without tiles.
fn plain_product(a: &[Bf16], taps: Taps, b: &[Bf16], n: usize, c: &mut [f32]) {
    for i in 0..BLOCK {
        let mut sums = [0.0_f32; BLOCK];
        for k in 0..taps.count * taps.inner {
            let (tap, inner) = (k / taps.inner, k % taps.inner);
            let a = a[(i + tap * taps.rows) * taps.stride + inner].to_f32();
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum += a * b[amx::b_index(k, j)].to_f32();
            }
        }
        c[i * n..][..BLOCK].copy_from_slice(&sums);
    }
}

/// One 32x32 block of [`Element::gather`] without tiles.
fn plain_gather(left: &[Bf16], right: &[Bf16], shape: Gathering, strip: usize, n: usize, c: &mut [f32]) {
    for k in 0..shape.groups * shape.rows {
        let row = k / shape.rows * shape.right_rows() + k % shape.rows;
        for i in 0..BLOCK {
            let left = left[(k / BLOCK * 2 + i / 16) * 512 + i % 16 * 32 + k % 32].to_f32();
            for j in 0..BLOCK {
                let right = right[j / 16 * strip + row / 2 * 32 + j % 16 * 2 + row % 2].to_f32();
                c[i * n + j] += left * right;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod tiles {
    //! The tile unit's part: one 32x32 block over segments, and the packing for it.

    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_loadu_si256, _mm512_cvtepu16_epi32, _mm512_or_si512, _mm512_setzero_si512,
        _mm512_shuffle_i32x4, _mm512_slli_epi32, _mm512_storeu_si512, _mm512_unpackhi_epi32,
        _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    };

    use super::{BLOCK, Bf16};

    /// One block's way through memory; strides, steps and jumps in bytes. Read by the assembly below.
    #[repr(C)]
    pub struct Walk {
        pub c: *mut f32,
        pub c_stride: usize,
        pub accumulate: usize,
        pub a: *const Bf16,
        /// From the upper 16 rows of A to the lower.
        pub a_low: usize,
        pub a_stride: usize,
        pub a_step: usize,
        /// After each segment.
        pub a_jump: usize,
        pub b: *const Bf16,
        /// From the left 16 columns of B to the right.
        pub b_right: usize,
        pub b_step: usize,
        pub b_jump: usize,
        pub steps: usize,
        pub segments: usize,
    }

    /// # Safety
    /// This thread's tiles are configured as [`super::Tiles`] does; every address that the walk reaches is valid;
    /// `steps` and `segments` are not zero.
    #[inline]
    pub unsafe fn block(walk: &Walk) {
        if walk.steps == 0 || walk.segments == 0 {
            return;
        }
        // SAFETY: the caller vouches for the memory and the configuration; tiles are clobbered.
        unsafe {
            std::arch::asm!(
                "mov {t0}, [{w}]",
                "mov {t1}, [{w} + 8]",
                "mov {t2}, {t1}",
                "shl {t2}, 4",
                "add {t2}, {t0}",
                "cmp qword ptr [{w} + 16], 0",
                "je 2f",
                "tileloadd tmm0, [{t0} + {t1}*1]",
                "tileloadd tmm1, [{t0} + {t1}*1 + 64]",
                "tileloadd tmm2, [{t2} + {t1}*1]",
                "tileloadd tmm3, [{t2} + {t1}*1 + 64]",
                "jmp 3f",
                "2:",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "3:",
                "mov {t0}, [{w} + 24]",
                "mov {t1}, {t0}",
                "add {t1}, [{w} + 32]",
                "mov {a_stride}, [{w} + 40]",
                "mov {a_step}, [{w} + 48]",
                "mov {t2}, [{w} + 64]",
                "mov {t3}, {t2}",
                "add {t3}, [{w} + 72]",
                "mov {b_step}, [{w} + 80]",
                "mov {segments}, [{w} + 104]",
                "4:",
                "mov {count}, [{w} + 96]",
                "5:",
                "tileloadd tmm6, [{t2} + {line}*1]",
                "tileloadd tmm4, [{t0} + {a_stride}*1]",
                "tileloadd tmm7, [{t3} + {line}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm5, [{t1} + {a_stride}*1]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {t0}, {a_step}",
                "add {t1}, {a_step}",
                "add {t2}, {b_step}",
                "add {t3}, {b_step}",
                "dec {count}",
                "jnz 5b",
                "add {t0}, [{w} + 56]",
                "add {t1}, [{w} + 56]",
                "add {t2}, [{w} + 88]",
                "add {t3}, [{w} + 88]",
                "dec {segments}",
                "jnz 4b",
                "mov {t0}, [{w}]",
                "mov {t1}, [{w} + 8]",
                "mov {t2}, {t1}",
                "shl {t2}, 4",
                "add {t2}, {t0}",
                "tilestored [{t0} + {t1}*1], tmm0",
                "tilestored [{t0} + {t1}*1 + 64], tmm1",
                "tilestored [{t2} + {t1}*1], tmm2",
                "tilestored [{t2} + {t1}*1 + 64], tmm3",
                w = in(reg) walk,
                line = in(reg) 64_usize,
                t0 = out(reg) _,
                t1 = out(reg) _,
                t2 = out(reg) _,
                t3 = out(reg) _,
                a_stride = out(reg) _,
                a_step = out(reg) _,
                b_step = out(reg) _,
                count = out(reg) _,
                segments = out(reg) _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }

    /// 16 columns of two rows, interleaved.
    ///
    /// # Safety
    /// Both rows are readable for 16 elements.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn pair(even: *const Bf16, odd: *const Bf16) -> __m512i {
        // SAFETY: as the caller says.
        let (even, odd) = unsafe {
            (_mm256_loadu_si256(even.cast::<__m256i>()), _mm256_loadu_si256(odd.cast::<__m256i>()))
        };
        _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(odd)))
    }

    /// # Safety
    /// AVX-512 is there, sizes are multiples of 32, both slices hold `rows * columns`.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn pack_right(source: &[Bf16], rows: usize, columns: usize, packed: &mut [Bf16]) {
        let (source, packed) = (source.as_ptr(), packed.as_mut_ptr());
        for strip in 0..columns / 16 {
            for p in 0..rows / 2 {
                // SAFETY: within both slices.
                unsafe {
                    let even = source.add(2 * p * columns + strip * 16);
                    let value = pair(even, even.add(columns));
                    _mm512_storeu_si512(packed.add((strip * (rows / 2) + p) * 32).cast(), value);
                }
            }
        }
    }

    /// # Safety
    /// AVX-512 is there, sizes are multiples of 32, both slices hold `rows * columns`.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn pack_left(source: &[Bf16], rows: usize, columns: usize, packed: &mut [Bf16]) {
        let steps = rows / BLOCK;
        let (source, packed) = (source.as_ptr(), packed.as_mut_ptr());
        for step in 0..steps {
            for strip in 0..columns / 16 {
                let mut lines = [_mm512_setzero_si512(); 16];
                for (p, line) in lines.iter_mut().enumerate() {
                    // SAFETY: within the source.
                    unsafe {
                        let even = source.add((step * BLOCK + 2 * p) * columns + strip * 16);
                        *line = pair(even, even.add(columns));
                    }
                }
                let lines = transpose(lines);
                let tile = (strip / 2 * steps + step) * 2 + strip % 2;
                for (i, line) in lines.into_iter().enumerate() {
                    // SAFETY: within the packed slice.
                    unsafe { _mm512_storeu_si512(packed.add(tile * 512 + i * 32).cast(), line) };
                }
            }
        }
    }

    /// Transposes 16x16 numbers of 32 bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn transpose(r: [__m512i; 16]) -> [__m512i; 16] {
        let mut t = r;
        // Pairs of rows, then pairs of pairs, inside each 128-bit lane.
        for i in 0..8 {
            t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
        }
        let mut u = t;
        for i in 0..4 {
            u[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
            u[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
            u[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
            u[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
        }
        // u[4q + c] lane l: rows 4q..4q+4 of column 4l + c. Gather the four q of a lane.
        let mut out = r;
        for c in 0..4 {
            let low_01 = _mm512_shuffle_i32x4::<0x44>(u[c], u[4 + c]);
            let high_01 = _mm512_shuffle_i32x4::<0xee>(u[c], u[4 + c]);
            let low_23 = _mm512_shuffle_i32x4::<0x44>(u[8 + c], u[12 + c]);
            let high_23 = _mm512_shuffle_i32x4::<0xee>(u[8 + c], u[12 + c]);
            out[c] = _mm512_shuffle_i32x4::<0x88>(low_01, low_23);
            out[4 + c] = _mm512_shuffle_i32x4::<0xdd>(low_01, low_23);
            out[8 + c] = _mm512_shuffle_i32x4::<0x88>(high_01, high_23);
            out[12 + c] = _mm512_shuffle_i32x4::<0xdd>(high_01, high_23);
        }
        out
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod tiles {
    //! No tile unit: `Tiles::configure` never answers, so nothing here is reached.

    use super::Bf16;

    pub struct Walk {
        pub c: *mut f32,
        pub c_stride: usize,
        pub accumulate: usize,
        pub a: *const Bf16,
        pub a_low: usize,
        pub a_stride: usize,
        pub a_step: usize,
        pub a_jump: usize,
        pub b: *const Bf16,
        pub b_right: usize,
        pub b_step: usize,
        pub b_jump: usize,
        pub steps: usize,
        pub segments: usize,
    }

    /// # Safety
    /// None needed.
    pub unsafe fn block(_walk: &Walk) {}
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
        let unit = E::unit();
        for (m, n, inner, count, rows, stride) in
            [(32, 32, 32, 1, 0, 32), (64, 96, 64, 3, 8, 96), (5, 32, 160, 1, 0, 160), (33, 64, 32, 2, 3, 64)]
        {
            let a = numbers((padded(m) + (count - 1) * rows) * stride, 1);
            let k = count * inner;
            let b = numbers(k * n, 2);
            let mut packed = Buffer::zeros(k * n);
            E::pack_weights(&b, k, n, &mut packed);
            let mut c = Buffer::zeros(padded(m) * n);
            E::product(&unit, &stored::<E>(&a), Taps { stride, count, rows, inner }, &packed, m, n, &mut c);
            for i in 0..m {
                for j in 0..n {
                    let sum: f32 =
                        (0..k).map(|x| a[(i + x / inner * rows) * stride + x % inner] * b[x * n + j]).sum();
                    assert_eq!(c[i * n + j], sum, "m {m} n {n} at {i}, {j}");
                }
            }
        }
    }

    fn gatherings_agree<E: Element>() {
        let unit = E::unit();
        for (m, n, shape) in [
            (32, 32, Gathering { groups: 1, rows: 32, taps: 1, tap_rows: 0 }),
            (64, 96, Gathering { groups: 3, rows: 64, taps: 3, tap_rows: 8 }),
            (96, 32, Gathering { groups: 2, rows: 32, taps: 2, tap_rows: 2 }),
        ] {
            let (rows, right_rows) = (shape.groups * shape.rows, shape.groups * shape.right_rows());
            let (left, right) = (numbers(rows * m, 3), numbers(right_rows * n, 4));
            let (mut packed_left, mut packed_right) =
                (Buffer::zeros(rows * m), Buffer::zeros(right_rows * n));
            E::pack_left(&stored::<E>(&left), rows, m, &mut packed_left);
            E::pack_right(&stored::<E>(&right), right_rows, n, &mut packed_right);
            let mut c = Buffer::zeros(shape.taps * m * n);
            c.fill(1.0);
            E::gather(&unit, &packed_left, &packed_right, shape, m, n, &mut c);
            for tap in 0..shape.taps {
                for i in 0..m {
                    for j in 0..n {
                        let sum: f32 = (0..rows)
                            .map(|k| {
                                let group = k / shape.rows * shape.right_rows() + k % shape.rows;
                                left[k * m + i] * right[(group + tap * shape.tap_rows) * n + j]
                            })
                            .sum();
                        assert_eq!(c[(tap * m + i) * n + j], sum + 1.0, "m {m} n {n} at {tap}, {i}, {j}");
                    }
                }
            }
        }
    }

    #[test]
    fn tiles_agree_with_plain_products() {
        products_agree::<Bf16>();
        gatherings_agree::<Bf16>();
    }

    #[test]
    fn single_precision_agrees_with_plain_products() {
        products_agree::<f32>();
        gatherings_agree::<f32>();
    }
}

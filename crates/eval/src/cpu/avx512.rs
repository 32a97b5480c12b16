//! The AVX-512 paths (`f32`, and bf16 with its pair products) and the tile path, which shares their
//! vector code.

use std::arch::x86_64::*;

use super::{
    amx::Tiles,
    elementwise::{Adjust, Elementwise},
    input::Job,
    kernels::{Kernels, by_rows, vectorised},
    layout::{BLOCK, Store},
    memory::Bf16,
};

/// AVX-512 in `f32`.
#[derive(Debug)]
pub(crate) struct Avx512;

/// AVX-512 in bf16.
#[derive(Debug)]
pub(crate) struct Avx512Bf16;

/// Tiles in bf16, vectors around them.
#[derive(Debug)]
pub(crate) struct Tiled;

/// `ROWS` rows of A times a panel, `f32`.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows.
#[target_feature(enable = "avx512f")]
unsafe fn rows_f32<const ROWS: usize>(
    a: *const f32,
    stride: usize,
    offsets: &[u32],
    b: *const f32,
    c: *mut f32,
) {
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    for (step, &offset) in offsets.iter().enumerate() {
        // SAFETY: the caller vouches for A's rows, the panel and C.
        unsafe {
            let a = a.byte_add(offset as usize);
            let b = b.add(step * BLOCK * BLOCK);
            for k in 0..BLOCK {
                let low = _mm512_load_ps(b.add(k * BLOCK));
                let high = _mm512_load_ps(b.add(k * BLOCK + 16));
                for (row, sums) in sums.iter_mut().enumerate() {
                    let value = _mm512_set1_ps(*a.add(row * stride + k));
                    sums[0] = _mm512_fmadd_ps(value, low, sums[0]);
                    sums[1] = _mm512_fmadd_ps(value, high, sums[1]);
                }
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        // SAFETY: C has these rows of 32.
        unsafe {
            _mm512_store_ps(c.add(row * BLOCK), sums[0]);
            _mm512_store_ps(c.add(row * BLOCK + 16), sums[1]);
        }
    }
}

/// `ROWS` rows of A times a panel in pair order, bf16; with `NARROW` only the first 16 columns.
///
/// # Safety
/// As [`Kernels::tall_product`] for these rows.
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn rows_bf16<const ROWS: usize, const NARROW: bool>(
    a: *const Bf16,
    stride: usize,
    offsets: &[u32],
    b: *const Bf16,
    c: *mut f32,
) {
    let mut sums = [[_mm512_setzero_ps(); 2]; ROWS];
    for (step, &offset) in offsets.iter().enumerate() {
        // SAFETY: the caller vouches for A's rows, the panel and C. Any 32 bits are two bf16.
        unsafe {
            let a = a.byte_add(offset as usize);
            let b = b.add(step * BLOCK * BLOCK);
            for pair in 0..BLOCK / 2 {
                let load = |at: usize| -> __m512bh {
                    std::mem::transmute(_mm512_load_si512(b.add(at).cast()))
                };
                let low = load(pair * BLOCK);
                for (row, sums) in sums.iter_mut().enumerate() {
                    let two = a.add(row * stride + 2 * pair).cast::<i32>().read_unaligned();
                    let value: __m512bh = std::mem::transmute(_mm512_set1_epi32(two));
                    sums[0] = _mm512_dpbf16_ps(sums[0], value, low);
                    if !NARROW {
                        sums[1] = _mm512_dpbf16_ps(sums[1], value, load(512 + pair * BLOCK));
                    }
                }
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        // SAFETY: C has these rows of 32.
        unsafe {
            _mm512_store_ps(c.add(row * BLOCK), sums[0]);
            _mm512_store_ps(c.add(row * BLOCK + 16), sums[1]);
        }
    }
}

/// # Safety
/// As [`Kernels::finish`].
#[target_feature(enable = "avx512f")]
unsafe fn finish_f32(
    c: *const f32,
    rows: usize,
    bias: *const f32,
    relu: bool,
    out: *mut f32,
    targets: &[u32],
    copies: usize,
) {
    let floor = _mm512_set1_ps(if relu { 0.0 } else { f32::NEG_INFINITY });
    // SAFETY: 32 biases, `rows` rows of C, and target rows, as the caller promises; all begin on
    // cache lines.
    unsafe {
        let bias = [_mm512_load_ps(bias), _mm512_load_ps(bias.add(16))];
        for (row, targets) in targets.chunks_exact(copies).take(rows).enumerate() {
            let value = |half: usize| {
                let sum = _mm512_add_ps(_mm512_load_ps(c.add(row * BLOCK + half * 16)), bias[half]);
                _mm512_max_ps(sum, floor)
            };
            let (low, high) = (value(0), value(1));
            for &target in targets {
                _mm512_store_ps(out.add(target as usize), low);
                _mm512_store_ps(out.add(target as usize + 16), high);
            }
        }
    }
}

/// # Safety
/// As [`Kernels::finish`].
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn finish_bf16<const COPIES: usize>(
    c: *const f32,
    rows: usize,
    bias: *const f32,
    relu: bool,
    out: *mut Bf16,
    targets: &[u32],
) {
    let floor = _mm512_set1_ps(if relu { 0.0 } else { f32::NEG_INFINITY });
    // SAFETY: as in `finish_f32`.
    unsafe {
        let bias = [_mm512_load_ps(bias), _mm512_load_ps(bias.add(16))];
        for (row, targets) in targets.chunks_exact(COPIES).take(rows).enumerate() {
            let value = |half: usize| {
                let sum = _mm512_add_ps(_mm512_load_ps(c.add(row * BLOCK + half * 16)), bias[half]);
                _mm512_max_ps(sum, floor)
            };
            let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(value(1), value(0)));
            for &target in targets {
                _mm512_store_si512(out.add(target as usize).cast(), both);
            }
        }
    }
}

/// Makes the input kernel of one element format.
macro_rules! input_kernel {
    ($name:ident, $dispatch:ident, $element:ty, $features:literal, $store_full:expr, $store_half:expr) => {
        /// # Safety
        /// As [`Kernels::input`], for jobs with `FULL` full vectors and a half one if `HALF`.
        #[target_feature(enable = $features)]
        unsafe fn $name<const FULL: usize, const HALF: bool>(
            job: &Job,
            relu: bool,
            states: &[u8; 64],
            out: *mut $element,
            store: &Store,
        ) {
            let floor = _mm512_set1_ps(if relu { 0.0 } else { f32::NEG_INFINITY });
            let (table, bias) = (job.table.as_ptr(), job.bias.as_ptr());
            let place = |position: usize| position / BLOCK * store.block_stride + position % BLOCK;
            let full_at: [usize; FULL] =
                std::array::from_fn(|vector| place(job.full_at + 16 * vector));
            let half_at = place(job.half_at);
            for square in 0..64 {
                // SAFETY: rows of `16 * FULL` weights, and 8 more if `HALF`, for each tap and state
                // (a state of the table), as many biases; the caller owns the target rows and no
                // vector straddles a block.
                unsafe {
                    let mut sums = [_mm512_setzero_ps(); FULL];
                    for (vector, sum) in sums.iter_mut().enumerate() {
                        *sum = _mm512_loadu_ps(bias.add(16 * vector));
                    }
                    let mut half = if HALF {
                        _mm256_loadu_ps(bias.add(16 * FULL))
                    } else {
                        _mm256_setzero_ps()
                    };
                    for &(neighbour, cell) in job.squares.of(square) {
                        let state = usize::from(*states.get_unchecked(neighbour as usize));
                        let row = table.add(cell as usize + state * job.state_stride);
                        for (vector, sum) in sums.iter_mut().enumerate() {
                            *sum = _mm512_add_ps(*sum, _mm512_loadu_ps(row.add(16 * vector)));
                        }
                        if HALF {
                            half = _mm256_add_ps(half, _mm256_loadu_ps(row.add(16 * FULL)));
                        }
                    }
                    let targets =
                        &store.targets[square * store.copies..(square + 1) * store.copies];
                    for &target in targets {
                        let out = out.add(target as usize);
                        for (sum, at) in sums.iter().zip(full_at) {
                            $store_full(out.add(at), _mm512_max_ps(*sum, floor));
                        }
                        if HALF {
                            let value = _mm256_max_ps(half, _mm512_castps512_ps256(floor));
                            $store_half(out.add(half_at), value);
                        }
                    }
                }
            }
        }

        /// # Safety
        /// As [`Kernels::input`].
        #[target_feature(enable = $features)]
        unsafe fn $dispatch(
            job: &Job,
            relu: bool,
            states: &[u8; 64],
            out: *mut $element,
            store: &Store,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                match (job.full, job.half) {
                    (0, true) => $name::<0, true>(job, relu, states, out, store),
                    (1, false) => $name::<1, false>(job, relu, states, out, store),
                    (1, true) => $name::<1, true>(job, relu, states, out, store),
                    (2, false) => $name::<2, false>(job, relu, states, out, store),
                    (2, true) => $name::<2, true>(job, relu, states, out, store),
                    (3, false) => $name::<3, false>(job, relu, states, out, store),
                    (3, true) => $name::<3, true>(job, relu, states, out, store),
                    (4, false) => $name::<4, false>(job, relu, states, out, store),
                    _ => debug_assert!(false, "a job has 8 to 64 lanes"),
                }
            }
        }
    };
}

pub(crate) use input_kernel;

input_kernel!(
    input_job_f32,
    input_f32,
    f32,
    "avx512f,avx512vl",
    |place: *mut f32, value: __m512| _mm512_storeu_ps(place, value),
    |place: *mut f32, value: __m256| _mm256_storeu_ps(place, value)
);

input_kernel!(
    input_job_bf16,
    input_bf16,
    Bf16,
    "avx512f,avx512vl,avx512bf16",
    |place: *mut Bf16, value: __m512| {
        _mm256_storeu_si256(
            place.cast(),
            std::mem::transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(value)),
        );
    },
    |place: *mut Bf16, value: __m256| {
        _mm_storeu_si128(
            place.cast(),
            std::mem::transmute::<__m128bh, __m128i>(_mm256_cvtneps_pbh(value)),
        );
    }
);

/// # Safety
/// As [`Kernels::dot`].
#[target_feature(enable = "avx512f")]
unsafe fn dot_f32(a: *const f32, stride: usize, blocks: usize, weights: *const f32) -> f32 {
    let mut sum = _mm512_setzero_ps();
    for block in 0..blocks {
        for half in [0, 16] {
            // SAFETY: blocks of 32 elements and weights, as the caller promises.
            unsafe {
                let values = _mm512_loadu_ps(a.add(block * stride + half));
                sum = _mm512_fmadd_ps(
                    values,
                    _mm512_loadu_ps(weights.add(block * BLOCK + half)),
                    sum,
                );
            }
        }
    }
    _mm512_reduce_add_ps(sum)
}

/// # Safety
/// As [`Kernels::dot`].
#[target_feature(enable = "avx512f")]
unsafe fn dot_bf16(a: *const Bf16, stride: usize, blocks: usize, weights: *const f32) -> f32 {
    let mut sum = _mm512_setzero_ps();
    for block in 0..blocks {
        for half in [0, 16] {
            // SAFETY: blocks of 32 elements and weights, as the caller promises.
            unsafe {
                let bits = _mm256_loadu_si256(a.add(block * stride + half).cast());
                let values =
                    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)));
                sum = _mm512_fmadd_ps(
                    values,
                    _mm512_loadu_ps(weights.add(block * BLOCK + half)),
                    sum,
                );
            }
        }
    }
    _mm512_reduce_add_ps(sum)
}

/// # Safety
/// As [`Kernels::finish`].
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn finish_bf16_any(
    c: *const f32,
    rows: usize,
    bias: *const f32,
    relu: bool,
    out: *mut Bf16,
    targets: &[u32],
    copies: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        match copies {
            1 => finish_bf16::<1>(c, rows, bias, relu, out, targets),
            3 => finish_bf16::<3>(c, rows, bias, relu, out, targets),
            5 => finish_bf16::<5>(c, rows, bias, relu, out, targets),
            _ => finish_bf16::<7>(c, rows, bias, relu, out, targets),
        }
    }
}

// SAFETY: `choose` lets only machines with AVX-512 F, BW and VL get here.
unsafe impl Kernels for Avx512 {
    type Element = f32;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn product(guard: &(), a: *const f32, offsets: &[u32], b: *const f32, c: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { Self::tall_product(guard, a, BLOCK, BLOCK, offsets, b, false, c) }
    }

    unsafe fn tall_product(
        _: &(),
        a: *const f32,
        rows: usize,
        stride: usize,
        offsets: &[u32],
        b: *const f32,
        _narrow: bool,
        c: *mut f32,
    ) {
        by_rows!([11, 10, 8, 4, 2, 1], rows, |first, COUNT| {
            // SAFETY: the caller's promise, for these rows.
            unsafe {
                rows_f32::<COUNT>(a.add(first * stride), stride, offsets, b, c.add(first * BLOCK))
            }
        });
    }

    unsafe fn finish(
        c: *const f32,
        rows: usize,
        _scale: *const f32,
        bias: *const f32,
        relu: bool,
        out: *mut f32,
        targets: &[u32],
        copies: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { finish_f32(c, rows, bias, relu, out, targets, copies) }
    }

    vectorised!(f32, "avx512f,avx512bw,avx512vl");

    unsafe fn input(job: &Job, relu: bool, states: &[u8; 64], out: *mut f32, store: &Store) {
        // SAFETY: the caller's promise.
        unsafe { input_f32(job, relu, states, out, store) }
    }

    unsafe fn dot(a: *const f32, stride: usize, blocks: usize, weights: *const f32) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { dot_f32(a, stride, blocks, weights) }
    }
}

// SAFETY: `choose` lets only machines with AVX-512 F, BW, VL and BF16 get here.
unsafe impl Kernels for Avx512Bf16 {
    type Element = Bf16;
    type Guard = ();

    fn guard() -> Option<()> {
        Some(())
    }

    unsafe fn product(guard: &(), a: *const Bf16, offsets: &[u32], b: *const Bf16, c: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { Self::tall_product(guard, a, BLOCK, BLOCK, offsets, b, false, c) }
    }

    unsafe fn tall_product(
        _: &(),
        a: *const Bf16,
        rows: usize,
        stride: usize,
        offsets: &[u32],
        b: *const Bf16,
        narrow: bool,
        c: *mut f32,
    ) {
        by_rows!([11, 10, 8, 4, 2, 1], rows, |first, COUNT| {
            // SAFETY: the caller's promise, for these rows.
            unsafe {
                let (a, c) = (a.add(first * stride), c.add(first * BLOCK));
                if narrow {
                    rows_bf16::<COUNT, true>(a, stride, offsets, b, c);
                } else {
                    rows_bf16::<COUNT, false>(a, stride, offsets, b, c);
                }
            }
        });
    }

    unsafe fn finish(
        c: *const f32,
        rows: usize,
        _scale: *const f32,
        bias: *const f32,
        relu: bool,
        out: *mut Bf16,
        targets: &[u32],
        copies: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { finish_bf16_any(c, rows, bias, relu, out, targets, copies) }
    }

    vectorised!(Bf16, "avx512f,avx512bw,avx512vl");

    unsafe fn input(job: &Job, relu: bool, states: &[u8; 64], out: *mut Bf16, store: &Store) {
        // SAFETY: the caller's promise.
        unsafe { input_bf16(job, relu, states, out, store) }
    }

    unsafe fn dot(a: *const Bf16, stride: usize, blocks: usize, weights: *const f32) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { dot_bf16(a, stride, blocks, weights) }
    }
}

// SAFETY: `choose` lets only machines with bf16 tiles and AVX-512 F, BW, VL and BF16 get here.
unsafe impl Kernels for Tiled {
    type Element = Bf16;
    type Guard = Tiles;

    fn guard() -> Option<Tiles> {
        Tiles::configure()
    }

    unsafe fn product(tiles: &Tiles, a: *const Bf16, offsets: &[u32], b: *const Bf16, c: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { tiles.product_at(a.cast(), offsets, b.cast(), c) }
    }

    unsafe fn tall_product(
        tiles: &Tiles,
        a: *const Bf16,
        rows: usize,
        stride: usize,
        offsets: &[u32],
        b: *const Bf16,
        narrow: bool,
        c: *mut f32,
    ) {
        // SAFETY: the caller's promise; 32 rows may be read where there are more than 16.
        unsafe { tiles.tall_product(a.cast(), rows, 2 * stride, offsets, b.cast(), narrow, c) }
    }

    unsafe fn finish(
        c: *const f32,
        rows: usize,
        _scale: *const f32,
        bias: *const f32,
        relu: bool,
        out: *mut Bf16,
        targets: &[u32],
        copies: usize,
    ) {
        // SAFETY: the caller's promise.
        unsafe { finish_bf16_any(c, rows, bias, relu, out, targets, copies) }
    }

    vectorised!(Bf16, "avx512f,avx512bw,avx512vl");

    unsafe fn input(job: &Job, relu: bool, states: &[u8; 64], out: *mut Bf16, store: &Store) {
        // SAFETY: the caller's promise.
        unsafe { input_bf16(job, relu, states, out, store) }
    }

    unsafe fn dot(a: *const Bf16, stride: usize, blocks: usize, weights: *const f32) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { dot_bf16(a, stride, blocks, weights) }
    }
}

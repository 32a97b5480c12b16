//! The core of attention on tiles, for heads of whole blocks of channels: both products run on the
//! tile unit, so keys and values are put into the order of its second operand first. Exponentials
//! are rounded to bf16 for the second product.

use std::{arch::x86_64::*, mem::transmute};

use super::{
    amx::{B_STEP, Tiles},
    attention::{Attend, SQUARES},
    layout::BLOCK,
    memory::Bf16,
    vector_activation::exp,
    vectors::Format,
};

/// Rows and pairs of a tile.
const TILE: usize = 16;

/// Memory for one head.
#[repr(C, align(64))]
struct Scratch {
    /// 32 channels of all keys, in two panels of 32 squares.
    keys: [u16; 2 * B_STEP],
    /// Those of all values: a panel of 32 channels with two steps of 32 squares.
    values: [u16; 2 * B_STEP],
    /// `[query][key]`.
    scores: [f32; SQUARES * SQUARES],
    /// Exponentials: `[step of 32 keys][query][key]`.
    exponentials: [u16; SQUARES * SQUARES],
    /// `[query][channel]`.
    sums: [f32; SQUARES * BLOCK],
    /// One over the sum of a query's exponentials.
    shares: [f32; SQUARES],
}

/// Can [`attend`] run this step?
pub(super) fn fits(step: &Attend) -> bool {
    step.depth.is_multiple_of(BLOCK)
}

/// Runs a step that fits, for one board.
///
/// # Safety
/// As [`Attend::run`]; the machine has AVX-512 F, BW, VL and BF16, and boards begin on cache lines.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) unsafe fn attend(
    step: &Attend,
    tiles: &Tiles,
    [query, key, value]: [*const Bf16; 3],
    board: *const Bf16,
    out: *mut Bf16,
) {
    let mut scratch = Scratch {
        keys: [0; 2 * B_STEP],
        values: [0; 2 * B_STEP],
        scores: [0.0; SQUARES * SQUARES],
        exponentials: [0; SQUARES * SQUARES],
        sums: [0.0; SQUARES * BLOCK],
        shares: [0.0; SQUARES],
    };
    let blocks = step.depth / BLOCK;
    for head in 0..step.heads {
        for index in 0..blocks {
            // Projections are stored once, cell after cell: each block is 64 rows of 32 channels.
            let at = step.from.element(0, (head * blocks + index) * BLOCK);
            // SAFETY: the projections have these blocks.
            unsafe { add_scores(tiles, query.add(at), key.add(at), index > 0, &mut scratch) };
        }
        let of_head = (!board.is_null()).then(|| board.wrapping_add(head * SQUARES * SQUARES));
        // SAFETY: the board has scores for each head.
        unsafe { softmax(1.0 / (step.depth as f32).sqrt(), of_head, &mut scratch) };
        for index in 0..blocks {
            let block = head * blocks + index;
            // SAFETY: the projections and the output have this block.
            unsafe {
                let value = value.add(step.from.element(0, block * BLOCK));
                add_up(tiles, value, &mut scratch);
                store(step, &scratch, out.add(block * step.store.block_stride));
            }
        }
    }
}

/// Adds to the scores the products of 32 channels.
///
/// # Safety
/// As [`attend`]; there are 64 rows of 32 channels.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn add_scores(
    tiles: &Tiles,
    query: *const Bf16,
    key: *const Bf16,
    accumulate: bool,
    scratch: &mut Scratch,
) {
    for part in 0..SQUARES / TILE {
        // SAFETY: 16 rows of the keys and a tile of the panels.
        unsafe {
            let to = scratch.keys.as_mut_ptr().add(part * TILE * BLOCK);
            transpose_pairs(key.add(part * TILE * BLOCK), to);
        }
    }
    for (row, panel) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        // SAFETY: 32 rows of the query, a panel of one step, and a quarter of the scores.
        unsafe {
            let a = query.add(row * BLOCK * BLOCK).cast();
            let b = scratch.keys.as_ptr().add(panel * B_STEP);
            let c = scratch.scores.as_mut_ptr().add((row * SQUARES + panel) * BLOCK);
            tiles.product(a, 2 * BLOCK, 0, b, 1, c, 4 * SQUARES, accumulate);
        }
    }
}

/// Replaces each row of scores, scaled and with the board's added, by exponentials of the
/// differences from the largest.
///
/// # Safety
/// As [`attend`]; the board's scores are 64 rows of 64.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn softmax(scale: f32, board: Option<*const Bf16>, scratch: &mut Scratch) {
    for query in 0..SQUARES {
        let scale = _mm512_set1_ps(scale);
        let mut row = [_mm512_setzero_ps(); SQUARES / TILE];
        for (part, scores) in row.iter_mut().enumerate() {
            let at = query * SQUARES + part * TILE;
            // SAFETY: a part of a row of the scores, and of the board's.
            *scores = unsafe {
                let own = _mm512_load_ps(scratch.scores.as_ptr().add(at));
                match board {
                    Some(board) => _mm512_fmadd_ps(own, scale, Bf16::read(board.add(at))),
                    None => _mm512_mul_ps(own, scale),
                }
            };
        }
        let most = _mm512_max_ps(_mm512_max_ps(row[0], row[1]), _mm512_max_ps(row[2], row[3]));
        let most = _mm512_set1_ps(_mm512_reduce_max_ps(most));
        for scores in &mut row {
            // SAFETY: the machine has the instructions.
            *scores = unsafe { exp(_mm512_sub_ps(*scores, most)) };
        }
        let mut sum = _mm512_setzero_ps();
        for (half, pair) in row.as_chunks().0.iter().enumerate() {
            let at = (half * SQUARES + query) * BLOCK;
            // SAFETY: a row of 32 exponentials on a cache line. Their sum is that of what is stored.
            unsafe {
                let stored = scratch.exponentials.as_mut_ptr().add(at).cast::<Bf16>();
                Bf16::write_row(*pair, stored);
                sum = _mm512_add_ps(sum, Bf16::read(stored));
                sum = _mm512_add_ps(sum, Bf16::read(stored.add(TILE)));
            }
        }
        scratch.shares[query] = 1.0 / _mm512_reduce_add_ps(sum);
    }
}

/// Adds up the values of 32 channels, weighted by the exponentials.
///
/// # Safety
/// As [`attend`]; there are 64 rows of 32 channels.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn add_up(tiles: &Tiles, value: *const Bf16, scratch: &mut Scratch) {
    for pair in 0..SQUARES / 2 {
        let at = pair / TILE * B_STEP + pair % TILE * BLOCK;
        // SAFETY: two rows of the values, and a row of both tiles of the panel.
        unsafe {
            let row = value.add(2 * pair * BLOCK).cast();
            let rows = [_mm512_load_si512(row), _mm512_load_si512(row.add(1))];
            let halves = interleaved(rows);
            let to = scratch.values.as_mut_ptr().add(at);
            _mm512_store_si512(to.cast(), halves[0]);
            _mm512_store_si512(to.add(B_STEP / 2).cast(), halves[1]);
        }
    }
    for row in 0..SQUARES / BLOCK {
        let at = row * BLOCK * BLOCK;
        // SAFETY: 32 rows of both steps of the exponentials, two steps of the panel, and half of
        // the sums.
        unsafe {
            let a = scratch.exponentials.as_ptr().add(at);
            let (b, c) = (scratch.values.as_ptr(), scratch.sums.as_mut_ptr().add(at));
            tiles.product(a, 2 * BLOCK, 2 * SQUARES * BLOCK, b, 2, c, 4 * BLOCK, false);
        }
    }
}

/// Stores the means of 32 channels.
///
/// # Safety
/// As [`attend`]; `out` is a block of the output.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn store(step: &Attend, scratch: &Scratch, out: *mut Bf16) {
    let targets = step.store.targets.chunks_exact(step.store.copies);
    for ((sums, share), targets) in
        scratch.sums.as_chunks::<BLOCK>().0.iter().zip(scratch.shares).zip(targets)
    {
        let share = _mm512_set1_ps(share);
        // SAFETY: a row is two vectors; the targets are rows of the output, on cache lines.
        unsafe {
            let low = _mm512_mul_ps(_mm512_load_ps(sums.as_ptr()), share);
            let high = _mm512_mul_ps(_mm512_load_ps(sums.as_ptr().add(TILE)), share);
            for &target in targets {
                Bf16::write_row([low, high], out.add(target as usize));
            }
        }
    }
}

/// Two rows of 32 numbers as pairs, number by number.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleaved([first, second]: [__m512i; 2]) -> [__m512i; 2] {
    // 16-bit numbers 0, 32, 1, 33, ..., 15, 47, and those 16 further on.
    const PAIRS: [[u16; 32]; 2] = {
        let mut pairs = [[0; 32]; 2];
        let mut at = 0;
        while at < 64 {
            pairs[at / 32][at % 32] = (at / 2 + at % 2 * 32) as u16;
            at += 1;
        }
        pairs
    };
    // SAFETY: any bits are 16-bit numbers.
    let pairs = unsafe { transmute::<[[u16; 32]; 2], [__m512i; 2]>(PAIRS) };
    [
        _mm512_permutex2var_epi16(first, pairs[0], second),
        _mm512_permutex2var_epi16(first, pairs[1], second),
    ]
}

/// Writes the pairs of channels of 16 rows in sequence: for each pair those of all rows.
///
/// # Safety
/// Both are 16 rows of 32 numbers on cache lines.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn transpose_pairs(rows: *const Bf16, to: *mut u16) {
    let mut r = [_mm512_setzero_si512(); 16];
    for (row, numbers) in r.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *numbers = unsafe { _mm512_load_si512(rows.add(row * BLOCK).cast()) };
    }
    // Pairs of rows, then fours; then quarters of vectors.
    let mut t = r;
    for at in (0..16).step_by(2) {
        t[at] = _mm512_unpacklo_epi32(r[at], r[at + 1]);
        t[at + 1] = _mm512_unpackhi_epi32(r[at], r[at + 1]);
    }
    for at in (0..16).step_by(4) {
        r[at] = _mm512_unpacklo_epi64(t[at], t[at + 2]);
        r[at + 1] = _mm512_unpackhi_epi64(t[at], t[at + 2]);
        r[at + 2] = _mm512_unpacklo_epi64(t[at + 1], t[at + 3]);
        r[at + 3] = _mm512_unpackhi_epi64(t[at + 1], t[at + 3]);
    }
    for at in 0..4 {
        let even = [
            _mm512_shuffle_i32x4::<0x88>(r[at], r[at + 4]),
            _mm512_shuffle_i32x4::<0x88>(r[at + 8], r[at + 12]),
        ];
        let odd = [
            _mm512_shuffle_i32x4::<0xdd>(r[at], r[at + 4]),
            _mm512_shuffle_i32x4::<0xdd>(r[at + 8], r[at + 12]),
        ];
        t[at] = _mm512_shuffle_i32x4::<0x88>(even[0], even[1]);
        t[at + 4] = _mm512_shuffle_i32x4::<0x88>(odd[0], odd[1]);
        t[at + 8] = _mm512_shuffle_i32x4::<0xdd>(even[0], even[1]);
        t[at + 12] = _mm512_shuffle_i32x4::<0xdd>(odd[0], odd[1]);
    }
    for (pair, numbers) in t.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { _mm512_store_si512(to.add(pair * BLOCK).cast(), *numbers) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{
        CpuPath,
        avx512_bf16::{Avx512Bf16, Tiled},
        kernels::Kernels,
        layout::Layout,
        memory::{CacheLines, Element},
    };

    #[test]
    fn attention_on_tiles_is_that_in_vectors() {
        let test = "attention_on_tiles_is_that_in_vectors";
        if CpuPath::Amx.obstacle(crate::Precision::Bf16).is_some() {
            return board::testing::skip(test, "the processor has no tiles with AVX-512 in bf16");
        }
        let tiles = Tiles::configure().expect("the path is available");
        let mut random = board::SplitMix64::new(1);
        for (heads, depth, has_board, reach) in
            [(1, 32, false, 0), (3, 32, true, 1), (2, 64, true, 0)]
        {
            let (from, to) =
                (Layout::new(8, heads * depth, 0), Layout::new(8, heads * depth, reach));
            let step = Attend {
                inputs: [0; 3],
                board: has_board.then_some(0),
                output: 0,
                from: from.clone(),
                heads,
                depth,
                store: to.store(),
            };
            assert!(fits(&step));
            let mut numbers = |count: usize| {
                let mut list = CacheLines::<Bf16>::zeroed(count);
                for number in list.as_mut_slice() {
                    *number = Bf16::from_f32(4.0 * random.unit() - 2.0);
                }
                list
            };
            let inputs = [(); 3].map(|()| numbers(from.board_stride()));
            let scores = numbers(heads * SQUARES * SQUARES);
            let board = if has_board { scores.as_ptr() } else { std::ptr::null() };
            let mut outputs = [(); 2].map(|()| CacheLines::<Bf16>::zeroed(to.board_stride()));
            let [tiled, plain] = &mut outputs;
            let pointers = inputs.each_ref().map(CacheLines::as_ptr);
            // SAFETY: the machine has the instructions; all boards are of the step's layouts.
            unsafe {
                Tiled::attend(&tiles, &step, pointers, board, tiled.as_mut_ptr());
                Avx512Bf16::attend(&(), &step, pointers, board, plain.as_mut_ptr());
            }
            for (found, expected) in tiled.as_slice().iter().zip(plain.as_slice()) {
                let (found, expected) = (found.to_f32(), expected.to_f32());
                assert!((found - expected).abs() < 0.02, "{found} instead of {expected}");
            }
            assert!(tiled.as_slice().iter().any(|number| number.to_f32().abs() > 0.1));
        }
    }
}

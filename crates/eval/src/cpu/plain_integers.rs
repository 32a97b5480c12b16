//! Test of int8 products: they must equal sums of plain integers exactly.

use super::{
    kernels::{Kernels, Operands},
    layout::BLOCK,
    memory::{CacheLines, Element},
    rounding::in_units,
};

/// Random numbers from 0 to 255, from a fixed seed.
pub(crate) fn dice() -> impl FnMut() -> u8 {
    let mut state = 1_u64;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    }
}

/// Compares the sums of a path, which this machine must be able to run, with plain integers.
pub(crate) fn check_sums<K: Kernels<Guard = ()>>() {
    let mut dice = dice();
    for (blocks, extreme, tall) in
        [(1, false, false), (3, false, true), (2, true, false), (2, true, true), (3, true, false)]
    {
        let depth = blocks * BLOCK;
        let mut a = CacheLines::<K::Element>::zeroed(BLOCK * depth);
        a.as_mut_slice().iter_mut().for_each(|activation| {
            *activation = K::Element::stored(f32::from(if extreme { 255 } else { dice() }));
        });
        // Each column has few large weights and many small ones, as large as the format allows.
        let mut weights = vec![0_i32; depth * BLOCK];
        for column in 0..BLOCK {
            let uneven: Vec<f32> = (0..depth)
                .map(|_| (f32::from(dice()) / 128.0 - 1.0).powi(2 * (column % 4) as i32 + 1))
                .collect();
            for (k, units) in in_units::<K::Element>(&uneven, 0.0, tall).1.into_iter().enumerate() {
                weights[k * BLOCK + column] = units as i32;
            }
        }
        let mut b = CacheLines::<K::Element>::zeroed(depth * BLOCK);
        for k in 0..depth {
            for column in 0..BLOCK {
                b.as_mut_slice()[K::Element::panel_index(k, column)] =
                    K::Element::from_f32(weights[k * BLOCK + column] as f32);
            }
        }
        // In each block the rows are consecutive, as those of a board.
        let offsets: Vec<u32> =
            (0..blocks as u32).map(|block| block * (BLOCK * BLOCK) as u32).collect();
        for rows in [1, 2, 3, 4, 5, 31, 32].into_iter().filter(|&rows| tall || rows == BLOCK) {
            let mut c = CacheLines::<f32>::zeroed(BLOCK * BLOCK);
            // SAFETY: the machine has the instructions, and all sizes are those of `rows` rows of
            // `blocks` blocks.
            unsafe {
                let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
                let operands = Operands { a, stride: BLOCK, offsets: &offsets, b, c };
                if tall {
                    K::tall_product(&(), &operands, rows, false);
                } else {
                    K::product(&(), &operands);
                }
            }
            for row in 0..rows {
                for column in 0..BLOCK {
                    let products = (0..depth).map(|k| {
                        let place = k / BLOCK * BLOCK * BLOCK + row * BLOCK + k % BLOCK;
                        a.as_slice()[place].to_f32() as i32 * weights[k * BLOCK + column]
                    });
                    let found = c.as_slice()[row * BLOCK + column].to_bits().cast_signed();
                    assert_eq!(
                        found,
                        products.sum::<i32>(),
                        "{blocks} blocks, row {row}, column {column}"
                    );
                }
            }
        }
    }
}

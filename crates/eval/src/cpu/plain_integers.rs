//! Tests of int8 paths: products must equal sums of plain integers exactly, and be stored as the
//! nearest bytes.

use nets::Activation;

use super::{
    kernels::{Destination, Kernels, Operands},
    layout::BLOCK,
    memory::{CacheLines, Element},
    rounding::in_units,
};

/// Random numbers from 0 to 255, from a fixed seed.
fn dice() -> impl FnMut() -> u8 {
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

/// Compares the bytes that a path stores, which this machine must be able to run, with plain numbers.
pub(crate) fn check_stored<K: Kernels>() {
    let mut dice = dice();
    let mut c = CacheLines::<f32>::zeroed(BLOCK * BLOCK);
    for sum in c.as_mut_slice() {
        *sum = f32::from_bits(((i32::from(dice()) - 100) * 997).cast_unsigned());
    }
    let (mut scale, mut bias) =
        (CacheLines::<f32>::zeroed(BLOCK), CacheLines::<f32>::zeroed(BLOCK));
    for column in 0..BLOCK {
        scale.as_mut_slice()[column] = 0.001 + 0.0001 * column as f32;
        bias.as_mut_slice()[column] = f32::from(dice()) - 128.0;
    }
    // Two copies of each row; the second copies are in reverse order.
    let targets: Vec<u32> = (0..32_u32).flat_map(|row| [row * 32, (63 - row) * 32]).collect();
    let mut out = CacheLines::<K::Element>::zeroed(64 * BLOCK);
    let mut residual = CacheLines::<K::Element>::zeroed(BLOCK * BLOCK);
    residual
        .as_mut_slice()
        .iter_mut()
        .for_each(|number| *number = K::Element::stored(f32::from(dice())));
    let ratio = 0.3;
    // SAFETY: the machine has the instructions; 32 rows, scales and biases, and targets within
    // `out`.
    unsafe {
        let to = Destination {
            scale: scale.as_ptr(),
            bias: bias.as_ptr(),
            residual: residual.as_ptr(),
            residual_stride: BLOCK,
            ratio,
            activation: Activation::Relu,
            out: out.as_mut_ptr(),
            targets: &targets,
            copies: 2,
        };
        K::finish(c.as_ptr(), BLOCK, &to);
    }
    for row in 0..BLOCK {
        for column in 0..BLOCK {
            let sum = c.as_slice()[row * BLOCK + column].to_bits().cast_signed() as f32;
            let value = sum.mul_add(scale.as_slice()[column], bias.as_slice()[column]);
            let added = residual.as_slice()[row * BLOCK + column].to_f32();
            let value = added.mul_add(ratio, value);
            let expected = value.round_ties_even().clamp(0.0, 255.0);
            for place in [row, 63 - row] {
                let found = out.as_slice()[place * BLOCK + column].to_f32();
                assert_eq!(found, expected, "row {row}, column {column}");
            }
        }
    }
}

//! Activation functions on vectors, for rows that go from a product to memory. Their errors are
//! below 2e-6; the plain ones are in [`activation`](super::activation).

use nets::Activation;

use super::{activation, layout::BLOCK, vectors::Vector};

/// Applies an activation to a row of 32 channels. Loops and not closures: these would not be
/// compiled for the instructions of the caller.
///
/// # Safety
/// The machine has the vector's instructions.
#[inline(always)]
pub(super) unsafe fn activate<V: Vector, const PARTS: usize>(
    activation: Activation,
    row: &mut [V; PARTS],
) {
    // SAFETY: the caller's promise; a row is 32 numbers.
    unsafe {
        match activation {
            Activation::Identity => {}
            Activation::Relu => {
                let zero = V::splat(0.0);
                for values in row {
                    *values = values.max(zero);
                }
            }
            Activation::Mish => {
                for values in row {
                    *values = mish(*values);
                }
            }
            Activation::Silu => {
                for values in row {
                    *values = silu(*values);
                }
            }
            rare => {
                let mut numbers = [0.0_f32; BLOCK];
                for (part, values) in row.iter().enumerate() {
                    values.store(numbers.as_mut_ptr().add(part * V::LANES));
                }
                activation::activate(rare, &mut numbers);
                for (part, values) in row.iter_mut().enumerate() {
                    *values = V::load(numbers.as_ptr().add(part * V::LANES));
                }
            }
        }
    }
}

/// `e^x`, with `x` clamped to -87..88: a power of two times a polynomial.
///
/// # Safety
/// The machine has the vector's instructions.
#[inline(always)]
pub(super) unsafe fn exp<V: Vector>(x: V) -> V {
    /// The coefficients of the series, from that of the sixth power down.
    const SERIES: [f32; 7] = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    // SAFETY: the caller's promise; the exponents are -126 to 127.
    unsafe {
        let x = x.max(V::splat(-87.0)).min(V::splat(88.0));
        let whole = x.mul(V::splat(std::f32::consts::LOG2_E)).rounded();
        let rest = whole.mul_add(V::splat(-std::f32::consts::LN_2), x);
        let mut sum = V::splat(SERIES[0]);
        for coefficient in &SERIES[1..] {
            sum = sum.mul_add(rest, V::splat(*coefficient));
        }
        sum.mul(whole.power_of_two())
    }
}

/// `1 / x` for numbers from 1 to 1e37, by one step of Newton's from the rough one.
///
/// # Safety
/// The machine has the vector's instructions.
#[inline(always)]
unsafe fn reciprocal<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let rough = x.rough_reciprocal();
        let error = x.mul_add(rough.mul(V::splat(-1.0)), V::splat(1.0));
        rough.mul_add(error, rough)
    }
}

/// [`activation::mish`].
///
/// # Safety
/// The machine has the vector's instructions.
#[inline(always)]
unsafe fn mish<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise; the divisor lies between 2 and e^40 and a bit.
    unsafe {
        // Above 20 the tangent is 1.
        let power = exp(x.min(V::splat(20.0)));
        let part = power.mul_add(power, power.add(power));
        x.mul(part).mul(reciprocal(part.add(V::splat(2.0))))
    }
}

/// `x / (1 + e^-x)`.
///
/// # Safety
/// The machine has the vector's instructions.
#[inline(always)]
unsafe fn silu<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe { x.mul(sigmoid(x)) }
}

/// `1 / (1 + e^-x)`, and nothing worth naming below -80.
///
/// # Safety
/// The machine has the vector's instructions.
#[inline(always)]
pub(super) unsafe fn sigmoid<V: Vector>(x: V) -> V {
    // SAFETY: the caller's promise.
    unsafe {
        let power = exp(x.mul(V::splat(-1.0)).min(V::splat(80.0)));
        reciprocal(power.add(V::splat(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cpu::{
            row::Row,
            vectors::{Format, Wide},
        },
        reference::activated,
    };

    /// The activation of these numbers, and one over one plus the power of e by their negatives.
    ///
    /// # Safety
    /// The machine has the vector's instructions.
    #[inline(always)]
    unsafe fn results<V: Vector, const PARTS: usize>(
        activation: Activation,
        numbers: &[f32; BLOCK],
    ) -> [[f32; BLOCK]; 2]
    where
        f32: Format<V, PARTS>,
    {
        let mut results = [[0.0; BLOCK]; 2];
        // SAFETY: the caller's promise.
        unsafe {
            let row = <Wide<V, PARTS> as Row<f32>>::load(numbers.as_ptr());
            Row::<f32>::store(Row::<f32>::activated(row, activation), results[0].as_mut_ptr());
            Row::<f32>::store(Row::<f32>::sigmoid(row), results[1].as_mut_ptr());
        }
        results
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn in_avx2(activation: Activation, numbers: &[f32; BLOCK]) -> [[f32; BLOCK]; 2] {
        // SAFETY: the machine has the instructions.
        unsafe { results::<std::arch::x86_64::__m256, 4>(activation, numbers) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    fn in_avx512(activation: Activation, numbers: &[f32; BLOCK]) -> [[f32; BLOCK]; 2] {
        // SAFETY: the machine has the instructions.
        unsafe { results::<std::arch::x86_64::__m512, 2>(activation, numbers) }
    }

    fn check(test: &str, results: impl Fn(Activation, &[f32; BLOCK]) -> [[f32; BLOCK]; 2]) {
        for activation in Activation::ALL {
            for part in -250..=250 {
                let numbers: [f32; BLOCK] =
                    std::array::from_fn(|at| (part * 32 + at as i32) as f32 / 80.0);
                let [found, sigmoids] = results(activation, &numbers);
                for ((x, found), sigmoid) in numbers.into_iter().zip(found).zip(sigmoids) {
                    let x = f64::from(x);
                    let expected = [activated(activation, x), 1.0 / (1.0 + (-x).exp())];
                    for (found, expected) in [found, sigmoid].into_iter().zip(expected) {
                        let error = (f64::from(found) - expected).abs() / (1.0 + expected.abs());
                        assert!(error < 2e-6, "{test}: {activation:?} of {x}: {found}");
                    }
                }
            }
        }
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn activations_of_pairs_follow_their_definitions() {
        // SAFETY: all processors of this architecture have the instructions.
        check("NEON", |activation, numbers| unsafe {
            results::<crate::cpu::neon::Pair, 4>(activation, numbers)
        });
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn activations_of_vectors_follow_their_definitions() {
        let test = "activations_of_vectors_follow_their_definitions";
        let (has, missing) = (std::is_x86_feature_detected!("avx2"), "the processor has no AVX");
        if !has || !std::is_x86_feature_detected!("fma") {
            return board::testing::skip(test, missing);
        }
        // SAFETY: the machine has the instructions.
        check("AVX2", |activation, numbers| unsafe { in_avx2(activation, numbers) });
        let names = ["avx512f", "avx512bw", "avx512vl"];
        if !names.into_iter().all(crate::cpu::path::has_feature) {
            return board::testing::skip(test, "the processor has no AVX-512");
        }
        // SAFETY: the machine has the instructions.
        check("AVX-512", |activation, numbers| unsafe { in_avx512(activation, numbers) });
    }
}

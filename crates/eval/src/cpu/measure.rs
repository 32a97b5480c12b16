//! Peak speed of the machine and a clock of processor time, for benchmarks.

use std::time::Instant;

use super::path::CpuPath;
use crate::Precision;

/// Processor time of this process in seconds, summed over its threads. Other programs do not affect
/// it.
#[must_use]
pub fn process_seconds() -> f64 {
    #[cfg(all(unix, not(miri)))]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pointer is to a local `timespec`.
        if unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) } == 0 {
            return time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9;
        }
    }
    // Other systems return the wall time since the first call.
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64()
}

/// Peak operations a second of one core: the speed of the path's multiply-add on registers, measured
/// over about 50 ms of processor time. A multiply-add counts as two operations. `None` for the
/// portable path and for paths that cannot run on this machine.
#[must_use]
pub fn peak_flops(path: CpuPath, precision: Precision) -> Option<f64> {
    if path.obstacle(precision).is_some() {
        return None;
    }
    #[cfg(target_arch = "x86_64")]
    {
        x86::peak(path, precision)
    }
    #[cfg(target_arch = "aarch64")]
    {
        arm::peak(path, precision)
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        None
    }
}

/// Operations a second of `work`, which does `flops` operations a call: the best of five rounds
/// of about 10 ms.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn rate(flops: f64, mut work: impl FnMut()) -> f64 {
    let mut best = 0.0_f64;
    for _ in 0..5 {
        let (start, mut calls) = (process_seconds(), 0.0);
        let mut elapsed = 0.0;
        while elapsed < 0.01 {
            for _ in 0..10 {
                work();
            }
            calls += 10.0;
            elapsed = process_seconds() - start;
        }
        best = best.max(calls * flops / elapsed);
    }
    best
}

/// Rounds of a call of the work.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const ROUNDS: usize = 1000;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{CpuPath, Precision, ROUNDS, rate};
    use crate::cpu::amx::Tiles;

    pub fn peak(path: CpuPath, precision: Precision) -> Option<f64> {
        let rounds = ROUNDS as f64;
        match (path, precision) {
            (CpuPath::Amx, _) => {
                let tiles = Tiles::configure()?;
                Some(rate(rounds * 4.0 * 16.0 * 16.0 * 32.0 * 2.0, || tiles.spin(ROUNDS)))
            }
            (CpuPath::Avx512, Precision::Bf16) => Some(rate(rounds * 16.0 * 32.0 * 2.0, || {
                // SAFETY: the caller has checked that the path's instructions exist here.
                unsafe { pairs() }
            })),
            (CpuPath::Avx512, Precision::Int8) => Some(rate(rounds * 16.0 * 64.0 * 2.0, || {
                // SAFETY: as above.
                unsafe { fours() }
            })),
            (CpuPath::Avx512, Precision::F32) => Some(rate(rounds * 16.0 * 16.0 * 2.0, || {
                // SAFETY: as above.
                unsafe { wide() }
            })),
            (CpuPath::Avx2, Precision::Int8) => Some(rate(rounds * 24.0 * 32.0 * 2.0, || {
                // SAFETY: as above.
                unsafe { narrow_eights() }
            })),
            (CpuPath::Avx2, _) => Some(rate(rounds * 12.0 * 8.0 * 2.0, || {
                // SAFETY: as above.
                unsafe { narrow() }
            })),
            (CpuPath::Portable | CpuPath::Neon, _) | (_, Precision::F16) => None,
        }
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn pairs() {
        let one = _mm512_set1_epi32(0x3f80_3f80);
        // SAFETY: any 512 bits are 32 bf16.
        let one: __m512bh = unsafe { std::mem::transmute(std::hint::black_box(one)) };
        let mut sums = [_mm512_setzero_ps(); 16];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm512_dpbf16_ps(*sum, one, one);
            }
        }
        std::hint::black_box(sums);
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn fours() {
        let one = std::hint::black_box(_mm512_set1_epi8(1));
        let mut sums = [_mm512_setzero_si512(); 16];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm512_dpbusd_epi32(*sum, one, one);
            }
        }
        std::hint::black_box(sums);
    }

    #[target_feature(enable = "avx512f")]
    unsafe fn wide() {
        let one = std::hint::black_box(_mm512_set1_ps(1.0));
        let mut sums = [_mm512_setzero_ps(); 16];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm512_fmadd_ps(one, one, *sum);
            }
        }
        std::hint::black_box(sums);
    }

    #[target_feature(enable = "avx2,fma")]
    unsafe fn narrow() {
        let one = std::hint::black_box(_mm256_set1_ps(1.0));
        let mut sums = [_mm256_setzero_ps(); 12];
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = _mm256_fmadd_ps(one, one, *sum);
            }
        }
        std::hint::black_box(sums);
    }

    #[target_feature(enable = "avx2")]
    unsafe fn narrow_eights() {
        let ones = _mm256_set1_epi16(1);
        // With equal factors the compiler would compute one product for all sums.
        let factors = std::hint::black_box([_mm256_set1_epi8(1); 6]);
        let mut bytes = std::hint::black_box([ones; 4]);
        let mut sums = [_mm256_setzero_si256(); 6];
        for _ in 0..ROUNDS {
            for (sum, factor) in sums.iter_mut().zip(&factors) {
                let mut words = _mm256_maddubs_epi16(bytes[0], *factor);
                for four in &bytes[1..] {
                    words = _mm256_add_epi16(words, _mm256_maddubs_epi16(*four, *factor));
                }
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(words, ones));
            }
            for four in &mut bytes {
                *four = _mm256_add_epi8(*four, ones);
            }
        }
        std::hint::black_box(sums);
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::*;

    use super::{CpuPath, Precision, ROUNDS, rate};
    use crate::cpu::neon_int8;

    pub fn peak(path: CpuPath, precision: Precision) -> Option<f64> {
        let rounds = ROUNDS as f64;
        match (path, precision) {
            (CpuPath::Neon, Precision::Int8) => Some(rate(rounds * 24.0 * 16.0 * 2.0, || {
                // SAFETY: the caller has checked that the path's instructions exist here.
                unsafe { fours() }
            })),
            (CpuPath::Neon, _) => Some(rate(rounds * 24.0 * 4.0 * 2.0, || {
                // SAFETY: as above.
                unsafe { narrow() }
            })),
            _ => None,
        }
    }

    #[target_feature(enable = "neon,dotprod")]
    unsafe fn fours() {
        // With equal sums the compiler would compute only one.
        let ones = std::hint::black_box(vdupq_n_s8(1));
        let mut sums = std::hint::black_box([vdupq_n_s32(0); 24]);
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = neon_int8::dot::<0>(*sum, ones, ones);
            }
        }
        std::hint::black_box(sums);
    }

    #[target_feature(enable = "neon")]
    unsafe fn narrow() {
        let one = std::hint::black_box(vdupq_n_f32(1.0));
        let mut sums = std::hint::black_box([vdupq_n_f32(0.0); 24]);
        for _ in 0..ROUNDS {
            for sum in &mut sums {
                *sum = vfmaq_f32(*sum, one, one);
            }
        }
        std::hint::black_box(sums);
    }
}

//! The tile unit (Intel AMX): detection, permission, tile configuration and the product of 32x32
//! blocks.
//!
//! Stable Rust has no tile intrinsics, so the instructions are inline assembly. They need three
//! things: the *process* must ask Linux once for permission to use tile data ([`status`]); each
//! *thread* must load a tile configuration before its first tile instruction
//! ([`Tiles::configure`]); and no value may stay in a tile between two `asm!` blocks, because the
//! compiler does not allocate tile registers. So each block product zeroes (or loads), accumulates
//! and stores its tiles in one `asm!` block.
//!
//! All eight tiles are configured as 16 rows of 64 bytes. Tiles 0-3 are sums of 16x16 `f32`, 4-5
//! are A (16 rows of 32 bf16), 6-7 are B in pair order: row `p` has for each of 16 columns the
//! elements `k = 2p` and `k = 2p + 1`.

use std::{marker::PhantomData, sync::OnceLock};

/// Rows of A and columns of B in one block product.
pub const BLOCK: usize = 32;

/// Inner elements of one step of a block product.
pub const STEP: usize = 32;

/// bf16 elements of B of one step: two tiles of 16 pairs x 16 columns x 2.
pub const B_STEP: usize = STEP * BLOCK;

/// Whether this process may use the tile unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// bf16 tile products may run; `int8` says whether int8 ones may too.
    Ready { int8: bool },
    /// The processor, or this build's target, has no bf16 tile unit.
    Missing,
    /// The operating system does not save the tile state: it has no AMX support, or it is disabled.
    NotEnabled,
    /// Linux refused the permission with this error number.
    Refused(i32),
}

impl Status {
    /// May bf16 tile products run?
    #[must_use]
    pub fn is_ready(self) -> bool {
        matches!(self, Self::Ready { .. })
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ready { int8: true } => f.write_str("bf16 and int8 tiles, permission granted"),
            Self::Ready { int8: false } => f.write_str("bf16 tiles, permission granted"),
            Self::Missing => f.write_str("the processor has no bf16 tile unit"),
            Self::NotEnabled => f.write_str("the operating system does not enable the tile state"),
            Self::Refused(error) => {
                write!(f, "the kernel refused the tile permission (error {error})")
            }
        }
    }
}

/// Detects the tile unit and asks Linux for permission to use it, once in each process.
#[must_use]
pub fn status() -> Status {
    static STATUS: OnceLock<Status> = OnceLock::new();
    *STATUS.get_or_init(detect)
}

#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
fn detect() -> Status {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    /// `arch_prctl` operation that asks for the use of an extended state component.
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    /// The state component that holds the tiles.
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    let (highest, basic) = (__cpuid(0).eax, __cpuid(1));
    if highest < 7 {
        return Status::Missing;
    }
    let features = __cpuid_count(7, 0).edx;
    let has = |bit: u32| features >> bit & 1 == 1;
    let (bf16, tile, int8) = (has(22), has(24), has(25));
    if !bf16 || !tile {
        return Status::Missing;
    }
    if basic.ecx >> 27 & 1 == 0 {
        return Status::NotEnabled;
    }
    let (low, high): (u32, u32);
    // SAFETY: OSXSAVE (checked above) makes `xgetbv` with register 0 available to user code.
    unsafe {
        std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high,
            options(nomem, nostack, preserves_flags));
    }
    let _ = high;
    if low >> 17 & 3 != 3 {
        return Status::NotEnabled;
    }
    // SAFETY: the request takes no pointers.
    let answer =
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) };
    if answer == 0 {
        Status::Ready { int8 }
    } else {
        Status::Refused(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
fn detect() -> Status {
    Status::Missing
}

/// Proof that this thread has a tile configuration. Dropping the last one of a thread releases the
/// tiles.
///
/// Configured tiles cost the operating system 8 KiB for each context switch and nothing else, so a
/// worker keeps its `Tiles` while it evaluates. The type cannot be sent to another thread.
#[derive(Debug)]
pub struct Tiles {
    /// The configuration belongs to the thread, so this is neither `Send` nor `Sync`.
    thread: PhantomData<*const ()>,
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::cell::Cell;

    use super::{PhantomData, Tiles, status};

    /// Operand of `ldtilecfg`: palette 1, eight tiles of 16 rows x 64 bytes.
    #[repr(C, align(64))]
    struct Configuration {
        palette: u8,
        start_row: u8,
        reserved: [u8; 14],
        row_bytes: [u16; 16],
        rows: [u8; 16],
    }

    /// By the number of rows (1 to 16) of tiles 0-5; tiles 6 and 7 always have 16.
    static CONFIGURATIONS: [Configuration; 17] = {
        const NONE: Configuration = Configuration {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [0; 16],
            rows: [0; 16],
        };
        let mut configurations = [NONE; 17];
        let mut rows = 1;
        while rows <= 16 {
            let mut tile = 0;
            while tile < 8 {
                configurations[rows].row_bytes[tile] = 64;
                configurations[rows].rows[tile] = if tile < 6 { rows as u8 } else { 16 };
                tile += 1;
            }
            rows += 1;
        }
        configurations
    };

    /// Loads the configuration whose tiles for A and C have `rows` (1 to 16) rows.
    ///
    /// # Safety
    /// The tile unit exists and is permitted.
    unsafe fn load(rows: usize) {
        // SAFETY: the caller's promise; the operand is a valid 64-byte palette-1 configuration.
        unsafe {
            std::arch::asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATIONS[rows],
                options(nostack, preserves_flags, readonly),
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _);
        }
    }

    thread_local! {
        /// Number of `Tiles` of this thread.
        static HELD: Cell<usize> = const { Cell::new(0) };
    }

    impl Tiles {
        /// Configures this thread's tiles; `None` where [`status`] is not ready.
        #[must_use]
        pub fn configure() -> Option<Self> {
            if !status().is_ready() {
                return None;
            }
            if HELD.replace(HELD.get() + 1) > 0 {
                return Some(Self { thread: PhantomData });
            }
            // SAFETY: the tile unit exists and is permitted.
            unsafe { load(16) };
            Some(Self { thread: PhantomData })
        }

        /// `C = A x B` (or `C += A x B` with `accumulate`) for one 32x32 block.
        ///
        /// A has 32 rows, `a_stride` bytes apart; its step `s` begins `s * a_step` bytes after `a`
        /// and is 32 bf16 long. B is `steps` consecutive steps of [`super::B_STEP`] bf16: the tile of
        /// columns 0-15, then that of 16-31, each 16 rows (pairs of k) of 32 elements. C has 32 rows
        /// of 32 `f32`, `c_stride` bytes apart. The product is much faster if all addresses and
        /// strides are multiples of 64 bytes. Sums are `f32`; the order within a pair is not
        /// specified, and denormals count as zero.
        ///
        /// # Safety
        /// A (32 rows, all steps), B and C must be valid for reads, C also for writes, and no other
        /// thread may use C.
        #[inline]
        #[expect(clippy::too_many_arguments, reason = "it is one machine operation")]
        pub unsafe fn product(
            &self,
            a: *const u16,
            a_stride: usize,
            a_step: usize,
            b: *const u16,
            steps: usize,
            c: *mut f32,
            c_stride: usize,
            accumulate: bool,
        ) {
            let a_low = a.wrapping_byte_add(16 * a_stride);
            let c_low = c.wrapping_byte_add(16 * c_stride);
            // SAFETY: the caller vouches for the memory; `self` proves the configuration; the tiles
            // are clobbered.
            unsafe {
                std::arch::asm!(
                    "test {accumulate:e}, {accumulate:e}",
                    "jz 2f",
                    "tileloadd tmm0, [{c} + {c_stride}*1]",
                    "tileloadd tmm1, [{c} + {c_stride}*1 + 64]",
                    "tileloadd tmm2, [{c_low} + {c_stride}*1]",
                    "tileloadd tmm3, [{c_low} + {c_stride}*1 + 64]",
                    "jmp 3f",
                    "2:",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "3:",
                    "test {steps}, {steps}",
                    "jz 5f",
                    "4:",
                    "tileloadd tmm6, [{b} + {b_stride}*1]",
                    "tileloadd tmm4, [{a} + {a_stride}*1]",
                    "tileloadd tmm7, [{b} + {b_stride}*1 + 1024]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm5, [{a_low} + {a_stride}*1]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "add {a}, {a_step}",
                    "add {a_low}, {a_step}",
                    "add {b}, 2048",
                    "dec {steps}",
                    "jnz 4b",
                    "5:",
                    "tilestored [{c} + {c_stride}*1], tmm0",
                    "tilestored [{c} + {c_stride}*1 + 64], tmm1",
                    "tilestored [{c_low} + {c_stride}*1], tmm2",
                    "tilestored [{c_low} + {c_stride}*1 + 64], tmm3",
                    a = inout(reg) a => _,
                    a_low = inout(reg) a_low => _,
                    a_stride = in(reg) a_stride,
                    a_step = in(reg) a_step,
                    b = inout(reg) b => _,
                    b_stride = in(reg) 64_usize,
                    steps = inout(reg) steps => _,
                    c = in(reg) c,
                    c_low = in(reg) c_low,
                    c_stride = in(reg) c_stride,
                    accumulate = in(reg) u32::from(accumulate),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    }

    impl Tiles {
        /// Computes `4 * rounds` tile products of zeros on registers, to measure the peak speed.
        pub(crate) fn spin(&self, rounds: usize) {
            // SAFETY: `self` proves the configuration; the tiles are clobbered and no memory is
            // touched.
            unsafe {
                std::arch::asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "tilezero tmm4",
                    "tilezero tmm5",
                    "tilezero tmm6",
                    "tilezero tmm7",
                    "4:",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "dec {rounds}",
                    "jnz 4b",
                    rounds = inout(reg) rounds.max(1) => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack, nomem),
                );
            }
        }

        /// `C = A x B` for one 32x32 block. Step `s` of A begins `offsets[s]` bytes behind `a` and is
        /// 32 consecutive rows of 32 bf16. B is as in [`Tiles::product`]; C is 32 rows of 32 `f32`.
        ///
        /// # Safety
        /// As [`Tiles::product`].
        #[inline]
        pub unsafe fn product_at(
            &self,
            a: *const u16,
            offsets: &[u32],
            b: *const u16,
            c: *mut f32,
        ) {
            let (next, end) = (offsets.as_ptr(), offsets.as_ptr_range().end);
            // SAFETY: the caller vouches for the memory; `self` proves the configuration; the tiles
            // are clobbered.
            unsafe {
                std::arch::asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "cmp {next}, {end}",
                    "je 5f",
                    "4:",
                    "mov {row:e}, dword ptr [{next}]",
                    "add {row}, {a}",
                    "add {next}, 4",
                    "tileloadd tmm6, [{b} + {stride}*1]",
                    "tileloadd tmm4, [{row} + {stride}*1]",
                    "tileloadd tmm7, [{b} + {stride}*1 + 1024]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    ".irp line,0,64,128,192,256,320,384,448", "prefetcht0 [{b} + 4096 + \\line]", ".endr",
                    "tileloadd tmm5, [{row} + {stride}*1 + 1024]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    ".irp line,512,576,640,704,768,832,896,960", "prefetcht0 [{b} + 4096 + \\line]", ".endr",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    ".irp line,1024,1088,1152,1216,1280,1344,1408,1472", "prefetcht0 [{b} + 4096 + \\line]", ".endr",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    ".irp line,1536,1600,1664,1728,1792,1856,1920,1984", "prefetcht0 [{b} + 4096 + \\line]", ".endr",
                    "add {b}, 2048",
                    "cmp {next}, {end}",
                    "jne 4b",
                    "5:",
                    "tilestored [{c} + {stride}*2], tmm0",
                    "tilestored [{c} + {stride}*2 + 64], tmm1",
                    "tilestored [{c} + {stride}*2 + 2048], tmm2",
                    "tilestored [{c} + {stride}*2 + 2112], tmm3",
                    a = in(reg) a,
                    row = out(reg) _,
                    next = inout(reg) next => _,
                    end = in(reg) end,
                    b = inout(reg) b => _,
                    stride = in(reg) 64_usize,
                    c = in(reg) c,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
        }
    }

    impl Tiles {
        /// As [`Tiles::product_at`], but A has 1 to 32 rows, `a_stride` bytes apart; if there are more
        /// than 16, 32 are read. The other rows of C are unspecified. With `narrow` columns 16-31 are
        /// zero.
        ///
        /// # Safety
        /// As [`Tiles::product`], for these rows.
        #[expect(clippy::too_many_arguments, reason = "it is one machine operation")]
        pub unsafe fn tall_product(
            &self,
            a: *const u16,
            rows: usize,
            a_stride: usize,
            offsets: &[u32],
            b: *const u16,
            narrow: bool,
            c: *mut f32,
        ) {
            let (next, end) = (offsets.as_ptr(), offsets.as_ptr_range().end);
            // Tiles with fewer rows need less memory traffic.
            let short = (1..16).contains(&rows);
            // SAFETY: the caller vouches for the memory; `self` proves that there are tiles; the
            // tiles are clobbered, and their configuration is restored.
            unsafe {
                if short {
                    load(rows);
                }
                std::arch::asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    "cmp {next}, {end}",
                    "je 5f",
                    "4:",
                    "mov {row:e}, dword ptr [{next}]",
                    "add {row}, {a}",
                    "add {next}, 4",
                    "tileloadd tmm4, [{row} + {a_stride}*1]",
                    "tileloadd tmm6, [{b} + {stride}*1]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "test {parts:e}, 1",
                    "jz 6f",
                    "tileloadd tmm7, [{b} + {stride}*1 + 1024]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "6:",
                    "test {parts:e}, 2",
                    "jz 7f",
                    "add {row}, {half}",
                    "tileloadd tmm5, [{row} + {a_stride}*1]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "test {parts:e}, 1",
                    "jz 7f",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    "7:",
                    "add {b}, 2048",
                    "cmp {next}, {end}",
                    "jne 4b",
                    "5:",
                    "tilestored [{c} + {stride}*2], tmm0",
                    "tilestored [{c} + {stride}*2 + 64], tmm1",
                    "tilestored [{c} + {stride}*2 + 2048], tmm2",
                    "tilestored [{c} + {stride}*2 + 2112], tmm3",
                    a = in(reg) a,
                    row = out(reg) _,
                    next = inout(reg) next => _,
                    end = in(reg) end,
                    b = inout(reg) b => _,
                    a_stride = in(reg) a_stride,
                    half = in(reg) 16 * a_stride,
                    parts = in(reg) u32::from(!narrow) + 2 * u32::from(rows > 16),
                    stride = in(reg) 64_usize,
                    c = in(reg) c,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
                if short {
                    load(16);
                }
            }
        }
    }

    impl Drop for Tiles {
        fn drop(&mut self) {
            HELD.set(HELD.get() - 1);
            if HELD.get() > 0 {
                return;
            }
            // SAFETY: a `Tiles` exists only where the tile unit exists and is permitted.
            unsafe {
                std::arch::asm!("tilerelease", options(nostack, nomem, preserves_flags),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _);
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Tiles {
    /// `None`: this target has no tiles.
    #[must_use]
    pub fn configure() -> Option<Self> {
        None
    }

    /// Never called: there is no `Tiles` on this target.
    ///
    /// # Safety
    /// None needed.
    #[expect(clippy::too_many_arguments, reason = "it mirrors the one machine operation")]
    pub unsafe fn product(
        &self,
        _a: *const u16,
        _a_stride: usize,
        _a_step: usize,
        _b: *const u16,
        _steps: usize,
        _c: *mut f32,
        _c_stride: usize,
        _accumulate: bool,
    ) {
        let _ = self.thread;
    }
}

/// The nearest bf16 (ties to even); NaN stays NaN.
#[inline]
#[must_use]
pub fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The `f32` equal to a bf16.
#[inline]
#[must_use]
pub fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Index of element (`k`, `column`) in a packed panel of 32 columns, in the order of
/// [`Tiles::product`].
#[inline]
#[must_use]
pub const fn b_index(k: usize, column: usize) -> usize {
    let (step, k) = (k / STEP, k % STEP);
    step * B_STEP + column / 16 * 512 + k / 2 * 32 + column % 16 * 2 + k % 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounds_to_nearest_even() {
        assert_eq!(to_bf16(1.0), 0x3f80);
        assert_eq!(to_bf16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(to_bf16(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(to_bf16(f32::from_bits(0x3f80_8001)), 0x3f81);
        assert!(from_bf16(to_bf16(f32::NAN)).is_nan());
    }

    #[test]
    fn block_product_is_exact_on_small_integers() {
        let Some(tiles) = Tiles::configure() else {
            let reason = status().to_string();
            return board::testing::skip("block_product_is_exact_on_small_integers", &reason);
        };
        for steps in [0_usize, 1, 2, 9] {
            let k_size = steps * STEP;
            let element = |row: usize, k: usize| ((row * 7 + k * 3) % 11) as f32 - 5.0;
            let weight = |k: usize, column: usize| ((k * 5 + column) % 7) as f32 - 3.0;
            let mut a = vec![0_u16; BLOCK * k_size];
            let mut b = vec![0_u16; BLOCK * k_size];
            for k in 0..k_size {
                for index in 0..BLOCK {
                    a[index * k_size + k] = to_bf16(element(index, k));
                    b[b_index(k, index)] = to_bf16(weight(k, index));
                }
            }
            let mut c = vec![1.0_f32; BLOCK * BLOCK];
            for round in 0..2 {
                // SAFETY: A, B and C have the sizes that the strides and steps name.
                unsafe {
                    tiles.product(
                        a.as_ptr(),
                        k_size * 2,
                        64,
                        b.as_ptr(),
                        steps,
                        c.as_mut_ptr(),
                        BLOCK * 4,
                        round == 1,
                    );
                }
                for row in 0..BLOCK {
                    for column in 0..BLOCK {
                        let sum: f32 =
                            (0..k_size).map(|k| element(row, k) * weight(k, column)).sum();
                        assert_eq!(c[row * BLOCK + column], sum * (round + 1) as f32);
                    }
                }
            }
        }
    }
}

//! The instruction set that kernels use: one source, compiled several times.
//!
//! [`multiversion!`](crate::multiversion) compiles a function for the baseline target, for AVX2
//! with FMA, and for AVX-512. Rust fixes the meaning of every floating-point operation and never
//! contracts or reorders them, so all versions give the same bits; the tests compare them. The
//! exception is GEMM of bf16 operands: AMX adds in an order of its own.

#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum Isa {
    /// What every CPU of the target has (SSE2 on x86-64, NEON on AArch64).
    Portable = 1,
    /// AVX2, FMA, F16C and BMI2.
    Avx2 = 2,
    /// AVX-512 F, BW, DQ and VL, with all of [`Isa::Avx2`].
    Avx512 = 3,
    /// AMX with bf16 tiles, AVX512-BF16, and all of [`Isa::Avx512`]. f32 kernels are the same.
    Amx = 4,
}

impl Isa {
    /// All instruction sets, the narrowest first.
    pub const ALL: [Isa; 4] = [Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Amx];

    /// The name in `IRRUN_ISA`.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Amx => "amx",
        }
    }

    /// Whether this CPU has it.
    pub fn is_available(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
                    && is_x86_feature_detected!("bmi2")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => {
                Isa::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => {
                Isa::Avx512.is_available()
                    && is_x86_feature_detected!("avx512bf16")
                    && crate::base::amx::has_tiles()
            }
            #[cfg(not(target_arch = "x86_64"))]
            _ => false,
        }
    }
}

static CHOSEN: AtomicU8 = AtomicU8::new(0);

/// The instruction set in use: the one that `IRRUN_ISA` names if the CPU has it, else the widest.
#[inline]
pub fn isa() -> Isa {
    match CHOSEN.load(Ordering::Relaxed) {
        1 => Isa::Portable,
        2 => Isa::Avx2,
        3 => Isa::Avx512,
        4 => Isa::Amx,
        _ => choose(),
    }
}

/// Whether the CPU is Intel's: some instructions, and software prefetches, pay only there.
#[cfg(target_arch = "x86_64")]
pub(crate) fn is_intel() -> bool {
    // CPUID is slow under hypervisors.
    static IS_INTEL: LazyLock<bool> =
        LazyLock::new(|| std::arch::x86_64::__cpuid(0).ebx.to_le_bytes() == *b"Genu");
    *IS_INTEL
}

/// Whether `rep movsb` is the fastest copy within the caches. AMD's CPUs, from Zen 5 on, do not
/// read the lines that it overwrites.
#[cfg(target_arch = "x86_64")]
pub(crate) fn moves_strings_fast() -> bool {
    use std::arch::x86_64::__cpuid;
    static FAST: LazyLock<bool> = LazyLock::new(|| {
        let is_amd = __cpuid(0).ebx.to_le_bytes() == *b"Auth";
        let signature = __cpuid(1).eax;
        // The family; its extended part is added.
        let family = (signature >> 8 & 0xf) + (signature >> 20 & 0xff);
        is_amd && family >= 0x1a
    });
    *FAST
}

/// Bytes of L2 per core, from CPUID.
#[cfg(target_arch = "x86_64")]
pub(crate) fn core_cache() -> usize {
    use std::arch::x86_64::__cpuid;
    const LEAF: u32 = 0x8000_0006;
    static BYTES: LazyLock<usize> = LazyLock::new(|| {
        let kib = if __cpuid(0x8000_0000).eax >= LEAF { __cpuid(LEAF).ecx >> 16 } else { 0 };
        if kib == 0 { USUAL_CACHE } else { (kib as usize) << 10 }
    });
    *BYTES
}

/// Bytes of L2 per core, on CPUs that do not tell.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn core_cache() -> usize {
    USUAL_CACHE
}

/// A common size of L2.
const USUAL_CACHE: usize = 1 << 20;

#[cold]
fn choose() -> Isa {
    let widest = Isa::ALL.into_iter().rev().find(|i| i.is_available()).unwrap_or(Isa::Portable);
    let isa = asked_for().ok().flatten().unwrap_or(widest);
    force(isa);
    isa
}

/// The instruction set that `IRRUN_ISA` names, if it is set.
///
/// # Errors
/// When there is none of that name, or the CPU lacks it; the message names the choices.
pub fn asked_for() -> Result<Option<Isa>, String> {
    let name = std::env::var_os("IRRUN_ISA").filter(|name| !name.is_empty());
    let Some(name) = name else { return Ok(None) };
    let named = Isa::ALL.into_iter().find(|isa| name == isa.name());
    let why = match named {
        Some(isa) if isa.is_available() => return Ok(Some(isa)),
        Some(_) => "which the CPU lacks",
        None => "which is no instruction set",
    };
    let there = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    let there: Vec<&str> = there.map(Isa::name).collect();
    let name = name.to_string_lossy();
    Err(format!("IRRUN_ISA is \"{name}\", {why}; set it to {}, or not at all", there.join(" or ")))
}

/// Sets the instruction set for the whole process; for tests that compare them.
///
/// # Panics
/// When the CPU lacks it.
pub fn force(isa: Isa) {
    assert!(isa.is_available(), "this machine has no {}", isa.name());
    CHOSEN.store(isa as u8, Ordering::Relaxed);
}

/// Compiles a function once for each instruction set and calls the version in use.
///
/// Functions that the body calls must be `#[inline(always)]` to be compiled with it.
/// `wide if CONDITION;` before the function says when AVX-512 pays for code of its own; otherwise
/// AVX2 is used. `vectors if CONDITION;` says when AVX2 does: no network waits for rows of f64 or
/// of 64-bit integers, and code for them would be a tenth of the kernels.
#[macro_export]
macro_rules! multiversion {
    (wide if $wide:expr, vectors if $vectors:expr; $(#[$meta:meta])* $vis:vis fn $name:ident $(<$($generic:ident : $bound:path),+ $(,)?>)?
     ($($arg:ident : $type:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments)]
        $vis fn $name $(<$($generic: $bound),+>)? ($($arg: $type),*) $(-> $ret)? {
            #[allow(clippy::too_many_arguments)]
            #[inline(always)]
            fn body $(<$($generic: $bound),+>)? ($($arg: $type),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::too_many_arguments)]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2")]
            fn avx512 $(<$($generic: $bound),+>)? ($($arg: $type),*) $(-> $ret)? {
                body $(::<$($generic),+>)? ($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::too_many_arguments)]
            #[target_feature(enable = "avx2,fma,f16c,bmi2")]
            fn avx2 $(<$($generic: $bound),+>)? ($($arg: $type),*) $(-> $ret)? {
                body $(::<$($generic),+>)? ($($arg),*)
            }

            match $crate::isa::isa() {
                // SAFETY: `isa()` is what the CPU has.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Isa::Avx512 | $crate::isa::Isa::Amx if $vectors && $wide => unsafe { avx512 $(::<$($generic),+>)? ($($arg),*) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                $crate::isa::Isa::Avx512 | $crate::isa::Isa::Amx | $crate::isa::Isa::Avx2 if $vectors => unsafe { avx2 $(::<$($generic),+>)? ($($arg),*) },
                _ => body $(::<$($generic),+>)? ($($arg),*),
            }
        }
    };
    (wide if $wide:expr; $($function:tt)*) => {
        $crate::multiversion! { wide if $wide, vectors if true; $($function)* }
    };
    (vectors if $vectors:expr; $($function:tt)*) => {
        $crate::multiversion! { wide if true, vectors if $vectors; $($function)* }
    };
    ($($function:tt)*) => {
        $crate::multiversion! { wide if true, vectors if true; $($function)* }
    };
}

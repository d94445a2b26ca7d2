//! Whether the CPU has AMX, and the size of its tiles.

#[cfg(all(test, target_os = "linux"))]
mod emulator;
mod tile;

#[cfg(all(test, target_os = "linux"))]
use emulator::is_emulated;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::OnceLock;
pub(crate) use tile::{TILE_ROW_BYTES, TILE_ROWS};

/// Whether the CPU has AMX with bf16 tiles, and the system lets this process use it.
pub(crate) fn has_tiles() -> bool {
    /// `AMX-BF16` and `AMX-TILE`.
    const FEATURES: u32 = 1 << 22 | 1 << 24;
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| has_features(FEATURES) && is_permitted() || is_emulated())
}

/// Whether it multiplies tiles of bytes too.
pub(crate) fn has_byte_tiles() -> bool {
    /// `AMX-INT8`.
    const FEATURE: u32 = 1 << 25;
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| has_tiles() && (has_features(FEATURE) || is_emulated()))
}

/// Whether the CPU has all of these features of CPUID leaf 7.
fn has_features(features: u32) -> bool {
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & features == features
}

/// Only tests emulate AMX.
#[cfg(not(all(test, target_os = "linux")))]
fn is_emulated() -> bool {
    false
}

/// Asks Linux to save the tile data of this process too; by default it does not, since it is large.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const REQUEST_STATE: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: the call reads its arguments alone.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

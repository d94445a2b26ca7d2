//! Whether there is AMX, and how large its tiles are.

#[cfg(all(test, target_os = "linux"))]
use crate::base::amx_emulator::is_emulated;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::OnceLock;

/// Rows, and columns of four bytes, of a tile.
pub(crate) const TILE_ROWS: usize = 16;

/// Bytes of a row of a tile.
pub(crate) const TILE_ROW_BYTES: usize = 64;

/// Whether the machine multiplies tiles of bf16, and the system lets this process do so.
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

/// Whether the processor has all of some features of leaf 7.
fn has_features(features: u32) -> bool {
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & features == features
}

/// Only tests do without a processor's tiles.
#[cfg(not(all(test, target_os = "linux")))]
fn is_emulated() -> bool {
    false
}

/// Asks the system for the tiles, whose state is larger than what it saves for all processes.
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

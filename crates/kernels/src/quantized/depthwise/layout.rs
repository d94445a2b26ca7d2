//! How filters and data are laid out.

#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;

/// Lines of taps in a block of a packed panel.
pub(super) const LINES: usize = 4;

/// Whether four lines are interleaved channel by channel. That takes VNNI and the byte permutation
/// of VBMI, which the first CPUs with VNNI lack.
pub(in crate::quantized) fn interleaves_lines() -> bool {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx => {
            is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vbmi")
        }
        _ => false,
    }
}

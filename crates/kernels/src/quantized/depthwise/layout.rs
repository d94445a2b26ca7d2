//! How filters and data are laid out.

#[cfg(target_arch = "x86_64")]
use crate::base::isa::Isa;
use crate::base::isa::isa;

/// Lines of taps in a block of a packed panel.
pub(super) const LINES: usize = 4;

/// Whether the values of four lines are joined in a lane. That takes VNNI and a permutation of
/// bytes that the first CPUs with VNNI have not got.
pub(in crate::quantized) fn joins_four() -> bool {
    match isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx => {
            is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vbmi")
        }
        _ => false,
    }
}

//! The precision of the operands, and how this CPU multiplies bf16.

#[cfg(target_arch = "x86_64")]
use crate::base::isa::is_intel;
use crate::base::isa::{Isa, isa};

/// What the operands of a GEMM are converted to. Sums are always f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// They stay f32.
    #[default]
    F32,
    /// To bf16: to nearest, ties to even; subnormals become 0.
    Bf16,
}

/// How bf16 operands are multiplied. All paths except `Amx` give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bf16Path {
    /// AMX tiles, which add in another order.
    Amx,
    /// Pairs along k, by VDPBF16PS or by its emulation.
    DpBf16,
    /// One by one in f32, in the order in which VDPBF16PS adds.
    F32,
}

/// The path of this CPU.
pub(super) fn bf16_path() -> Bf16Path {
    match isa() {
        Isa::Portable => Bf16Path::DpBf16,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if has_fast_dp_bf16() => Bf16Path::DpBf16,
        Isa::Avx512 | Isa::Avx2 => Bf16Path::F32,
        Isa::Amx => Bf16Path::Amx,
    }
}

/// Whether the CPU has VDPBF16PS.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_dp_bf16() -> bool {
    isa() >= Isa::Avx512 && is_x86_feature_detected!("avx512bf16")
}

/// Whether VDPBF16PS is faster than f32. Intel's CPUs start one every other cycle, but two f32 FMAs
/// every cycle.
#[cfg(target_arch = "x86_64")]
fn has_fast_dp_bf16() -> bool {
    has_dp_bf16() && !is_intel()
}

impl Precision {
    /// The bf16 path; `None` for f32.
    pub(super) fn bf16_path(self) -> Option<Bf16Path> {
        (self == Precision::Bf16).then(bf16_path)
    }

    /// Neighbouring elements along k that share a lane.
    pub(crate) fn per_lane(self) -> usize {
        match self.bf16_path() {
            None | Some(Bf16Path::F32) => 1,
            Some(Bf16Path::Amx | Bf16Path::DpBf16) => 2,
        }
    }

    /// Whether bf16 operands are kept as pairs, so that results can be written and read as bf16.
    pub fn keeps_pairs(self) -> bool {
        self.per_lane() == 2
    }

    /// Lanes of f32 that `k` neighbouring elements of an operand take; an odd `k` is padded to
    /// whole pairs for bf16.
    pub(super) fn lanes(self, k: usize) -> usize {
        match self {
            Precision::F32 => k,
            Precision::Bf16 => k.next_multiple_of(2) / self.per_lane(),
        }
    }

    /// Rows of a packed panel for `k` elements, padded to whole tiles for AMX.
    pub(super) fn rows(self, k: usize) -> usize {
        #[cfg(target_arch = "x86_64")]
        if self.has_tiles() {
            return self.lanes(k).next_multiple_of(super::amx::config::PAIRS);
        }
        self.lanes(k)
    }

    /// Whether AMX multiplies.
    pub(crate) fn has_tiles(self) -> bool {
        self.bf16_path() == Some(Bf16Path::Amx)
    }
}

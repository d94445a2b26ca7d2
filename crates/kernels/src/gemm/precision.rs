//! What operands are rounded to, and how the machine multiplies what has been rounded.

#[cfg(target_arch = "x86_64")]
use crate::base::isa::is_intel;
use crate::base::isa::{Isa, isa};

/// What the operands of a product are rounded to; the sums are f32 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// They are f32 and stay so.
    #[default]
    F32,
    /// To bf16, nearest, ties to even; what is below the normal numbers to 0.
    Bf16,
}

/// How products of operands in bf16 are computed. All but the first give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bf16Path {
    /// Tiles, in an order of their own.
    Amx,
    /// Pairs of neighbours along k, by the instruction for it, or step by step.
    DpBf16,
    /// One by one in f32, in the order of the pairs.
    F32,
}

/// How this machine does it.
pub(super) fn bf16_path() -> Bf16Path {
    match isa() {
        Isa::Portable => Bf16Path::DpBf16,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if has_fast_dp_bf16() => Bf16Path::DpBf16,
        Isa::Avx512 | Isa::Avx2 => Bf16Path::F32,
        Isa::Amx => Bf16Path::Amx,
    }
}

/// Whether the machine multiplies pairs itself.
#[cfg(target_arch = "x86_64")]
pub(super) fn has_dp_bf16() -> bool {
    isa() >= Isa::Avx512 && is_x86_feature_detected!("avx512bf16")
}

/// Whether that is faster than in f32: Intel's machines begin one such instruction every other
/// cycle, and two in f32 in each.
#[cfg(target_arch = "x86_64")]
fn has_fast_dp_bf16() -> bool {
    has_dp_bf16() && !is_intel()
}

impl Precision {
    /// How its products are computed; none for f32 as such.
    pub(super) fn bf16_path(self) -> Option<Bf16Path> {
        (self == Precision::Bf16).then(bf16_path)
    }

    /// Neighbouring elements along k in a lane.
    pub(crate) fn per_lane(self) -> usize {
        match self.bf16_path() {
            None | Some(Bf16Path::F32) => 1,
            Some(Bf16Path::Amx | Bf16Path::DpBf16) => 2,
        }
    }

    /// Whether what has been rounded is kept in pairs, so that results can be written and read so.
    pub fn keeps_pairs(self) -> bool {
        self.per_lane() == 2
    }

    /// Lanes of f32 that `k` neighbouring elements of an operand take: whole pairs of those that
    /// are rounded.
    pub(super) fn lanes(self, k: usize) -> usize {
        match self {
            Precision::F32 => k,
            Precision::Bf16 => k.next_multiple_of(2) / self.per_lane(),
        }
    }

    /// Rows of a packed panel for `k` elements: whole tiles, where products are made of them.
    pub(super) fn rows(self, k: usize) -> usize {
        #[cfg(target_arch = "x86_64")]
        if self.has_tiles() {
            return self.lanes(k).next_multiple_of(super::amx::config::PAIRS);
        }
        self.lanes(k)
    }

    /// Whether products are made of tiles.
    pub(crate) fn has_tiles(self) -> bool {
        self.bf16_path() == Some(Bf16Path::Amx)
    }
}

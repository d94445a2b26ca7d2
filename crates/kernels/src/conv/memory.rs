//! Memory that a convolution takes, beside its input, filters and output, in bytes.

use super::depthwise;
use super::problem::Convolution;
use super::small_ic::small_ic;
use super::small_oc::small_oc;
use super::winograd;
use crate::base::num::UnalignedF32;
use crate::gemm::{Gemm, Layout, Lhs, Rhs};

impl Convolution {
    /// Bytes of filters that are packed before their first use; others are packed on the second.
    pub fn packed_bytes(&self) -> usize {
        if self.is_winograd() {
            return winograd::packed_len(self) * size_of::<f32>();
        }
        let each = depthwise::group_channels(self);
        match (self.repeated(), each, small_ic(self)) {
            (Some(repeated), ..) => repeated.packed_bytes(),
            (_, Some(each), _) => self.taps() * each * self.outputs * size_of::<f32>(),
            (.., Some(_)) => self.taps() * self.inputs * self.outputs * size_of::<f32>(),
            _ => small_oc(self).map_or(0, |small| small.packed_len() * size_of::<f32>()),
        }
    }

    /// Bytes of scratch memory for a run on this many threads, with data and results in f32 and
    /// filters that are used once. The zeros that stand for padding are not counted.
    pub fn scratch_bytes(&self, threads: usize) -> usize {
        let (inputs, outputs) = self.group();
        if self.is_winograd() {
            return winograd::scratch_len(self, threads) * size_of::<f32>();
        }
        if let Some(repeated) = self.repeated() {
            return self.batch * repeated.inside() * repeated.inputs * size_of::<f32>();
        }
        let k = self.taps() * inputs;
        if depthwise::group_channels(self).is_some() || k * outputs == 0 {
            return 0;
        }
        if let Some(small) = small_ic(self) {
            return small.scratch_len() * size_of::<f32>();
        }
        if let Some(small) = small_oc(self) {
            return small.scratch_len(threads) * size_of::<f32>();
        }
        let layout = Layout::Kernel { taps: self.taps() };
        let gemm = Gemm {
            m: self.batch * self.positions(),
            n: outputs,
            k,
            a: Lhs::Rows { values: &[], stride: k },
            b: Rhs::Unpacked(UnalignedF32::of(&[]), layout),
            c_stride: self.outputs,
            precision: self.gemm_precision(),
            post_ops: &[],
        };
        gemm.scratch_bytes(threads)
    }
}

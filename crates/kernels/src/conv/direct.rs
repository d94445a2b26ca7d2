//! Direct convolution: a GEMM of the windows (implicit im2col) and the filters, group by group.

use super::problem::{Convolution, Filters, Input};
use super::small_ic::small_ic;
use crate::base::num::UnalignedF32;
use crate::base::workers::{Packer, Workers};
use crate::gemm::{
    BlockDiagonal, Gemm, Im2col, Layout, Lhs, Packed, PostOp, Precision, Rhs, RhsSize, Target,
};

impl Convolution {
    /// The precision of its GEMM: f32 if it has few input channels and [`small_ic()`] does not
    /// convert them to bf16.
    pub(super) fn gemm_precision(&self) -> Precision {
        if self.reads_channels_first() && small_ic(self).is_none() {
            Precision::F32
        } else {
            self.precision
        }
    }

    /// Packs a matrix for each group.
    pub(super) fn packed(&self, to: Packer<'_>, filters: &[f32]) -> Filters<'static> {
        let taps = self.taps();
        let (inputs, outputs) = self.group();
        let k = taps * inputs;
        let layout = Layout::Kernel { taps };
        let group = |g: usize| &filters[g * k * outputs..][..k * outputs];
        let pack = |g: usize| {
            Packed::new(
                to,
                UnalignedF32::of(group(g)),
                layout,
                RhsSize { k, n: outputs },
                self.gemm_precision(),
            )
        };
        Filters::Packed((0..self.groups).map(pack).collect())
    }

    /// Convolves group by group.
    pub(super) fn groups(
        &self,
        Workers { threads, scratch }: Workers<'_>,
        (input, filters): (Input<'_>, &Filters<'_>),
        post_ops: &[PostOp<'_>],
        mut output: Target<'_>,
    ) {
        let (inputs, outputs) = self.group();
        let strides = self.strides(&input);
        let counted = inputs / input.per_count();
        let mut zeros = scratch.take::<f32>(self.inputs);
        zeros.fill(0.0);
        let windows = |group: usize| Im2col {
            input: input.values,
            axes: self.axes,
            strides,
            channels: group * counted..(group + 1) * counted,
            zeros: &zeros,
        };
        if let (Filters::Packed(panels), Target::F32(output)) = (filters, &mut output)
            && self.groups > 1
            && !input.is_bf16
        {
            let windows = windows(0);
            let a = self.lhs(&windows, &input);
            let first = self.gemm(a, self.rhs(filters, 0), post_ops);
            if let Some(all) = BlockDiagonal::of(first, panels) {
                return all.run(threads, output);
            }
        }
        for group in 0..self.groups {
            let (windows, first) = (windows(group), group * outputs);
            let a = self.lhs(&windows, &input);
            let a = if input.is_bf16 { Lhs::Bf16(&a) } else { a };
            let post_ops: Vec<PostOp<'_>> =
                post_ops.iter().map(|op| op.from_column(first)).collect();
            let gemm = self.gemm(a, self.rhs(filters, group), &post_ops);
            gemm.run_to(threads, scratch, output.after(first));
        }
    }

    /// The GEMM of a group.
    fn gemm<'a>(&self, a: Lhs<'a>, b: Rhs<'a>, post_ops: &'a [PostOp<'a>]) -> Gemm<'a> {
        let (inputs, outputs) = self.group();
        Gemm {
            m: self.batch * self.positions(),
            n: outputs,
            k: self.taps() * inputs,
            a,
            b,
            c_stride: self.outputs,
            precision: self.gemm_precision(),
            post_ops,
        }
    }

    /// The filters of a group as B.
    fn rhs<'a>(&self, filters: &'a Filters<'_>, group: usize) -> Rhs<'a> {
        match filters {
            Filters::Packed(panels) => Rhs::Packed(&panels[group]),
            Filters::Plain(values) => {
                let (inputs, outputs) = self.group();
                let taps = self.taps();
                let own = &values[group * taps * inputs * outputs..];
                Rhs::Unpacked(UnalignedF32::of(own), Layout::Kernel { taps })
            }
            Filters::Depthwise(_)
            | Filters::Skipping(_)
            | Filters::SmallIc(_)
            | Filters::SmallOc(_)
            | Filters::Winograd(_) => {
                unreachable!("these convolutions have a kernel of their own")
            }
        }
    }

    /// The windows as A; for a 1×1 kernel, the input itself.
    fn lhs<'a>(&self, windows: &'a Im2col<'a>, input: &Input<'a>) -> Lhs<'a> {
        let stride = self.inputs / input.per_count();
        let Input { values: first, factors, concat: others, .. } = *input;
        let is_alone = input.is_alone();
        assert!(
            is_alone || !input.is_bf16,
            "an input in bf16 has neither factors nor further inputs"
        );
        assert!(
            is_alone || self.groups == 1,
            "only 1×1 convolutions have factors or further inputs"
        );
        match factors {
            _ if !self.is_one_by_one() || windows.strides.channel != 1 => {
                assert!(is_alone, "only 1×1 convolutions have factors or further inputs");
                Lhs::Im2col(windows)
            }
            Some(factors) => {
                assert!(others.is_empty(), "concatenated inputs have no factors");
                Lhs::Scaled { values: first, stride, factors, rows: self.positions() }
            }
            None if !others.is_empty() => {
                Lhs::Concat { first, others, columns: stride / (others.len() + 1) }
            }
            None => {
                let values = windows.input.get(windows.channels.start..).unwrap_or_default();
                Lhs::Rows { values, stride }
            }
        }
    }
}

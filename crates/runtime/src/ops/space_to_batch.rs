//! SpaceToBatch-2 and BatchToSpace-2: one strided copy per position in a block.

use crate::kernel::Copy;
use crate::kernel::movement::{movement, over_zeros};
use crate::prelude::*;
use infer::ops::space_to_batch::SpaceToBatch;
use kernels::copy::{Axis, CopyPlan, dense_strides};
use kernels::gemm::Window;

impl Lower for SpaceToBatch {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let (block, begin) = (cx.ints(1)?, cx.ints(2)?);
        let (input, output) = (cx.sizes(0), cx.output_sizes(0)?);
        let (blocked, flat) = if self.to_batch() { (output, input) } else { (input, output) };
        if blocked.contains(&0) {
            return over_zeros(cx.element_type(0), Vec::new());
        }
        let axes = blocked.iter().zip(flat).zip(block.iter().zip(&begin)).skip(1);
        // A position in a block is a tap of a window whose stride is the block.
        let windows = axes.map(|((blocks, size), (block, begin))| Window {
            input: *size,
            output: *blocks,
            taps: *block as usize,
            stride: *block as usize,
            dilation: 1,
            start: -*begin as isize,
        });
        let windows: Vec<Window> = windows.collect();
        let count = blocked[0] / flat[0].max(1);
        let mut plans: Vec<CopyPlan> =
            (0..count).filter_map(|i| part(&windows, i, blocked, flat)).collect();
        if !self.to_batch() {
            plans.iter_mut().for_each(|plan| *plan = plan.reversed());
        }
        let copied: usize = plans.iter().map(CopyPlan::count).sum();
        if copied < output.iter().product() {
            return over_zeros(cx.element_type(0), plans);
        }
        let copy = |plan| Copy { input: 0, output: 0, plan };
        movement(cx.element_type(0), 1, plans.into_iter().map(copy).collect())
    }
}

/// The copy of position `index` of each block, from the flat side to the blocked side.
fn part(windows: &[Window], index: usize, blocked: &[usize], flat: &[usize]) -> Option<CopyPlan> {
    let (from_strides, to_strides) = (dense_strides(flat), dense_strides(blocked));
    let mut rest = index;
    let (mut from, mut to) = (0, (index * flat[0]) as isize * to_strides[0]);
    let mut axes = vec![Axis { size: flat[0], from: from_strides[0], to: to_strides[0] }];
    let strides = from_strides[1..].iter().zip(&to_strides[1..]);
    for (window, (from_stride, to_stride)) in windows.iter().zip(strides).rev() {
        let tap = rest % window.taps;
        rest /= window.taps;
        let blocks = window.outputs_within(tap);
        from += window.position(blocks.start, tap)? as isize * from_stride;
        to += blocks.start as isize * to_stride;
        let step = window.stride as isize * from_stride;
        axes.insert(1, Axis { size: blocks.len(), from: step, to: *to_stride });
    }
    Some(CopyPlan::new(axes, from, to))
}

//! ShuffleChannels-1: a transpose of groups and their elements.

use crate::kernel::Copy;
use crate::kernel::movement::movement;
use crate::prelude::*;
use infer::ops::shuffle_channels::ShuffleChannels;
use kernels::copy::CopyPlan;

impl Lower for ShuffleChannels {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let sizes = cx.sizes(0);
        let axis = self.axis(sizes.len())?;
        let group = self.group() as usize;
        let (outer, inner) = (sizes[..axis].iter().product(), sizes[axis + 1..].iter().product());
        let plan = CopyPlan::transpose(&[outer, group, sizes[axis] / group, inner], &[0, 2, 1, 3]);
        movement(cx.element_type(0), 1, vec![Copy { input: 0, output: 0, plan }])
    }
}

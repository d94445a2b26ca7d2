//! PReLU-1: a binary function.

use super::binary::binary;
use crate::prelude::*;
use infer::ops::prelu::PRelu;
use kernels::binary::Binary;
use kernels::broadcast::Broadcast;

impl Lower for PRelu {
    fn lower(&self, cx: &LowerCx<'_>) -> Result<Box<dyn Kernel>, LowerError> {
        let data = cx.sizes(0);
        let plan = Broadcast::new(data, [data, &PRelu::aligned(data, cx.sizes(1))]);
        binary(cx, Binary::PRelu, plan)
    }
}

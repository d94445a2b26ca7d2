//! Depthwise convolutions of quantized data with integer filters run in integers. Unlike other
//! convolutions they may have quantization parameters for each channel of the data: each sum is of
//! one channel.

use crate::fused::convolution::ChannelsLast;
use crate::fused::quantized::{IntegerConvolution, IntegerInput, Reads};
use crate::graph::net::{Net, Node, Operation, Value};
use crate::kernel::post_ops::{PostOp, moved};
use crate::passes::quantization::integers::repeated;
use crate::tensor::Tensor;
use kernels::quantized::{QuantParams, QuantizedConvolution, stays_in_registers};
use std::sync::Arc;

/// The node that computes a depthwise convolution in integers, for data with these parameters of
/// each channel.
pub(super) fn in_integers(net: &mut Net, node: &Node, params: &[QuantParams]) -> Option<Node> {
    let conv = node.fused::<ChannelsLast>().filter(|conv| !conv.gives_means)?;
    // Other functions are called once for each row, and the rows of f32 convolutions are longer.
    let is_called = |op: &PostOp| matches!(op, PostOp::Apply(f) if !stays_in_registers(*f));
    if conv.post_ops.iter().any(is_called) {
        return None;
    }
    let integers = net.values[*node.inputs.get(1)?].integers.clone()?;
    let quantized = QuantizedConvolution::depthwise(&conv.conv, params)?;
    let scales = repeated(&integers.scales, params.len())?;
    let scales = scales.iter().zip(params).map(|(filter, data)| filter * data.scale());
    let scales = Tensor::from_vec(&[params.len()], scales.collect()).ok()?;
    let made = IntegerConvolution {
        data: IntegerInput { quantized, reads: Reads::Quantized },
        concat: Vec::new(),
        columns: conv.conv.outputs,
        gates: None,
        // Scales come before the operands of the post-ops.
        post_ops: conv.post_ops.iter().map(|op| moved(*op, 1)).collect(),
        writes: None,
    };
    let mut made = Node { operation: Operation::Fused(Arc::new(made)), ..node.clone() };
    made.inputs[1] = net.add(Value::known(integers.values));
    made.inputs.insert(2, net.add(Value::known(scales)));
    Some(made)
}

//! Poolings whose sizes depend on the values of an input, with indices that nothing reads.

use infer::Inputs;
use ir::ElementType::{F32, I64};
use ir::GraphBuilder;
use irrun_runtime::{Tensor, compile};

/// The larger of each two neighbours, for several sizes in one session.
#[test]
fn unread_indices_of_deferred_poolings_are_dropped() {
    let sliding: &[(&str, &str)] =
        &[("kernel", "1,2"), ("strides", "1,2"), ("pads_begin", "0,0"), ("pads_end", "0,0")];
    for adaptive in [false, true] {
        let mut g = GraphBuilder::new("pools");
        let (x, sizes) = (g.parameter("x", F32, "?"), g.parameter("sizes", I64, "4"));
        let reshape = g.layer("Reshape", "opset1").attribute("special_zero", "false");
        let x = reshape.inputs(&[x, sizes]).output();
        let pool = if adaptive {
            let sizes = g.constant_i64(&[1, 4]);
            g.layer("AdaptiveMaxPool", "opset8").inputs(&[x, sizes])
        } else {
            g.layer("MaxPool", "opset8").attributes(sliding).inputs(&[x])
        };
        let larger = pool.outputs(2)[0];
        g.result("y", larger);
        let graph = g.finish().unwrap();
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        let mut session = compile(&graph, &facts).unwrap().session();
        for batch in [1, 3] {
            let values: Vec<f32> = (0..batch * 8).map(|i| (i * 37 % 101) as f32).collect();
            let expected: Vec<f32> = values.chunks(2).map(|two| two[0].max(two[1])).collect();
            let sizes = Tensor::from_vec(&[4], vec![batch as i64, 1, 1, 8]).unwrap();
            let input = Tensor::from_vec(&[batch * 8], values).unwrap();
            let outputs = session.run(&[input, sizes]).unwrap();
            assert_eq!(outputs[0].as_slice::<f32>().unwrap(), expected, "adaptive: {adaptive}");
        }
    }
}

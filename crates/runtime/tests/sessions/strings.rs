//! Operations on strings use empty strings where they use zeros for numbers: for padding, and for
//! indices out of range.

use infer::Inputs;
use ir::ElementType::{I32, String as Strings};
use ir::{ElementType, GraphBuilder};
use irrun_runtime::{Options, Tensor};

/// A layer of type and version, attributes, and the integer inputs after the data.
struct Case {
    kind: &'static str,
    version: &'static str,
    attributes: &'static [(&'static str, &'static str)],
    dims: &'static str,
    ints: &'static [&'static [i64]],
}

impl Case {
    fn run(&self, element_type: ElementType, input: Tensor, optimize: bool) -> Tensor {
        let mut g = GraphBuilder::new(self.kind);
        let mut inputs = vec![g.parameter("x", element_type, self.dims)];
        inputs.extend(self.ints.iter().map(|ints| g.constant_i64(ints)));
        let layer = g.layer(self.kind, self.version).attributes(self.attributes);
        let y = layer.inputs(&inputs).output();
        g.result("y", y);
        let graph = g.finish().unwrap();
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        let plan = irrun_runtime::compile_with(
            &graph,
            &facts,
            &Options { optimize, ..Options::default() },
        )
        .unwrap();
        plan.session().run(&[input]).unwrap().remove(0)
    }

    fn check(&self) {
        let sizes: Vec<usize> = self.dims.split(',').map(|d| d.parse().unwrap()).collect();
        let count: usize = sizes.iter().product();
        let numbers: Vec<i32> = (1..=count as i32).collect();
        let text = |n: &i32| if *n == 0 { "".into() } else { format!("<{n}>").into_boxed_str() };
        let strings = numbers.iter().map(text).collect();
        let numbers = self.run(I32, Tensor::from_vec(&sizes, numbers).unwrap(), true);
        let expected: Vec<Box<str>> = numbers.as_slice().unwrap().iter().map(text).collect();
        assert!(expected.iter().any(|s| s.is_empty()), "{} pads nothing", self.kind);
        let strings = Tensor::strings(&sizes, strings).unwrap();
        for optimize in [true, false] {
            let found = self.run(Strings, strings.clone(), optimize);
            assert_eq!(found.sizes(), numbers.sizes(), "{}", self.kind);
            assert_eq!(found.as_strings(), Some(&expected[..]), "{}", self.kind);
        }
    }
}

const CASES: [Case; 4] = [
    Case {
        kind: "SpaceToBatch",
        version: "opset2",
        attributes: &[],
        dims: "1,3,3",
        ints: &[&[1, 2, 2], &[0, 1, 0], &[0, 0, 1]],
    },
    Case {
        kind: "ExtractImagePatches",
        version: "opset3",
        attributes: &[
            ("sizes", "2,2"),
            ("strides", "1,1"),
            ("rates", "1,1"),
            ("auto_pad", "same_upper"),
        ],
        dims: "1,2,3,3",
        ints: &[],
    },
    Case {
        kind: "Pad",
        version: "opset1",
        attributes: &[("pad_mode", "constant")],
        dims: "2,3",
        ints: &[&[1, 0], &[0, 2]],
    },
    Case {
        kind: "Gather",
        version: "opset8",
        attributes: &[],
        dims: "4,2",
        ints: &[&[0, 9, -1], &[0]],
    },
];

#[test]
fn gaps_are_empty_strings() {
    CASES.iter().for_each(Case::check);
}

//! Convolutions in f32 with packed filters, one for each way that they are computed: implicit
//! im2col, Winograd, pointwise, depthwise, and few input channels.

use criterion::{Criterion, Throughput};
use irrun_kernels::conv::{Convolution, DepthwiseInput, Input};
use irrun_kernels::gemm::{Precision, Window};
use irrun_kernels::par::Threads;
use irrun_kernels::quantize::Output;
use irrun_kernels::{Packer, ScratchPool, Workers};
use std::time::Duration;

/// A square image, as padded as keeps its size where the stride is 1.
struct Case {
    name: &'static str,
    size: usize,
    inputs: usize,
    outputs: usize,
    taps: usize,
    stride: usize,
    groups: usize,
}

const CASES: [Case; 6] = [
    case("first layer", (224, 3, 32), (3, 2), 1),
    case("3×3", (56, 64, 64), (3, 1), 1),
    case("3×3, stride 2", (56, 64, 128), (3, 2), 1),
    case("5×5", (28, 32, 64), (5, 1), 1),
    case("pointwise", (28, 128, 256), (1, 1), 1),
    case("depthwise", (56, 144, 144), (3, 1), 144),
];

const fn case(
    name: &'static str,
    (size, inputs, outputs): (usize, usize, usize),
    (taps, stride): (usize, usize),
    groups: usize,
) -> Case {
    Case { name, size, inputs, outputs, taps, stride, groups }
}

impl Case {
    fn convolution(&self) -> Convolution {
        let Case { size, inputs, outputs, taps, stride, groups, .. } = *self;
        let output = size.div_ceil(stride);
        let start = -((taps / 2) as isize);
        let window = Window { input: size, output, taps, stride, dilation: 1, start };
        let axes = [Window::NONE, window, window];
        Convolution { batch: 1, axes, inputs, outputs, groups, precision: Precision::F32 }
    }
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect()
}

fn convolutions(criterion: &mut Criterion) {
    let (threads, scratch) = (Threads::new(2), ScratchPool::default());
    let mut group = criterion.benchmark_group("convolution");
    for case in CASES {
        let conv = case.convolution();
        let input = values(case.size * case.size * case.inputs);
        let given = values(case.outputs * case.inputs / case.groups * case.taps * case.taps);
        let filters = conv.pack_filters(Packer::unpooled(&threads), &given);
        let mut output = vec![0.0; conv.positions() * case.outputs];
        group.throughput(Throughput::Elements(conv.flops()));
        group.bench_function(case.name, |bencher| {
            bencher.iter(|| {
                let input = Input::channels_last(&input);
                if conv.is_depthwise() {
                    let input = DepthwiseInput::F32(input.values);
                    let output = Output::F32(&mut output);
                    let workers = Workers { threads: &threads, scratch: &scratch };
                    conv.run_depthwise(workers, (input, &filters), &[], (output, &mut []));
                } else {
                    let operands = (input, &filters, &given[..]);
                    conv.run(&threads, &scratch, operands, &[], &mut output);
                }
            });
        });
    }
}

fn main() {
    let criterion = Criterion::default().sample_size(20).without_plots();
    let criterion = criterion.warm_up_time(Duration::from_millis(100));
    let mut criterion =
        criterion.measurement_time(Duration::from_millis(700)).configure_from_args();
    convolutions(&mut criterion);
    criterion.final_summary();
}

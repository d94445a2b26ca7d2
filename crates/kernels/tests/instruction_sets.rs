//! Kernels give the same bits on every instruction set that the CPU has, except for bf16 GEMM by
//! AMX, which adds in another order. In a process of its own: the instruction set is chosen for the
//! whole process, and packed matrices are for one of them.

use irrun_kernels::conv::{Convolution, Input};
use irrun_kernels::gemm::{
    Gemm, Layout, Lhs, Operand, Packed, PostOp, Precision, Rhs, RhsSize, Window,
};
use irrun_kernels::isa::{Isa, force};
use irrun_kernels::multiversion;
use irrun_kernels::num::{UnalignedF32, bf16};
use irrun_kernels::par::Threads;
use irrun_kernels::slices::Slices;
use irrun_kernels::softmax::softmax;
use irrun_kernels::unary::{SIXTH, Unary, unary_f32};
use irrun_kernels::{InOut, Packer, ScratchPool};

fn numbers(len: usize, seed: f32) -> Vec<f32> {
    (0..len).map(|i| (i as f32 * seed).sin()).collect()
}

multiversion! {
    fn dot(a: &[f32], b: &[f32]) -> f32 {
        let mut lanes = [0f32; 16];
        for (a, b) in a.chunks_exact(16).zip(b.chunks_exact(16)) {
            for i in 0..16 {
                lanes[i] = a[i].mul_add(b[i], lanes[i]);
            }
        }
        lanes.iter().sum()
    }
}

/// A GEMM of many rows, packed, with post-ops; and one of few rows, with B unpacked.
fn products(precision: Precision) -> Vec<f32> {
    let (m, n, k) = (37, 75, 130);
    let (a, b, bias) = (numbers(m * k, 0.37), numbers(k * n, 0.71), numbers(n, 0.13));
    let (threads, scratch) = (Threads::single(), ScratchPool::default());
    let layout = Layout::Rows { stride: n };
    let packed = Packed::new(
        Packer::unpooled(threads),
        UnalignedF32::of(&b),
        layout,
        RhsSize { k, n },
        precision,
    );
    let post_ops =
        [PostOp::Add(Operand::Columns(&bias)), PostOp::Apply(Unary::Swish { beta: 1.0 })];
    let mut c = vec![0.0; (m + 2) * n];
    let (many, few) = c.split_at_mut(m * n);
    let a = Lhs::Rows { values: &a, stride: k };
    Gemm { m, n, k, a, b: Rhs::Packed(&packed), c_stride: n, precision, post_ops: &post_ops }
        .run(threads, &scratch, many);
    Gemm {
        m: 2,
        n,
        k,
        a,
        b: Rhs::Unpacked(UnalignedF32::of(&b), layout),
        c_stride: n,
        precision,
        post_ops: &[],
    }
    .run(threads, &scratch, few);
    c
}

/// Convolutions with padding, dense and depthwise, from NCHW and NHWC.
fn convolutions(precision: Precision) -> Vec<f32> {
    let (threads, scratch) = (Threads::single(), ScratchPool::default());
    let axis = Window { input: 33, output: 33, taps: 3, stride: 1, dilation: 1, start: -1 };
    let mut all = Vec::new();
    for (inputs, outputs, groups) in [(3, 20, 1), (24, 16, 1), (32, 48, 1), (37, 37, 37)] {
        let axes = [Window::NONE, axis, axis];
        let conv = Convolution { batch: 1, axes, inputs, outputs, groups, precision };
        // Only AMX converts the operands of those with few channels to bf16, so theirs are exact in
        // bf16.
        let exact = |x: &f32| if inputs < 16 { bf16::from_f32(*x).to_f32() } else { *x };
        let own = |len, seed| numbers(len, seed).iter().map(exact).collect::<Vec<f32>>();
        let values = own(33 * 33 * inputs, 0.53);
        let given = own(outputs * inputs / groups * 9, 0.29);
        let filters = conv.pack_filters(Packer::unpooled(threads), &given);
        let channels_first = conv.reads_channels_first();
        let input = Input { channels_first, ..Input::channels_last(&values) };
        let post_ops = [PostOp::Apply(Unary::Relu {})];
        let mut out = vec![0.0; 33 * 33 * outputs];
        conv.run(threads, &scratch, (input, &filters, &given), &post_ops, &mut out);
        all.extend(out);
    }
    all
}

/// Softmax along and across rows, in place and not.
fn softmaxes() -> Vec<f32> {
    let from: Vec<f32> = (0..700).map(|i| (i * 37 % 101) as f32 * 0.11).collect();
    let mut all = Vec::new();
    for axis in [0, 1] {
        let slices = Slices::new(&[20, 35], &[axis]);
        let (mut place, mut apart) = (from.clone(), vec![0.0; from.len()]);
        softmax(Threads::single(), &slices, &mut InOut::in_place(&mut place));
        softmax(Threads::single(), &slices, &mut InOut::separate(&from, &mut apart));
        assert_eq!(place, apart);
        all.extend(place);
    }
    all
}

fn functions() -> Vec<f32> {
    let values: Vec<f32> = (-3000..3001).map(|i| i as f32 * 0.011).collect();
    let mut all = Vec::new();
    for function in [
        Unary::Exp {},
        Unary::Tanh {},
        Unary::Erf {},
        Unary::Log {},
        Unary::GeluErf {},
        Unary::GeluTanh {},
        Unary::Swish { beta: 1.0 },
        Unary::HSwish { factor: SIXTH },
    ] {
        let mut out = vec![0.0; values.len()];
        unary_f32(Threads::single(), function, &mut InOut::separate(&values, &mut out));
        all.extend(out);
    }
    all
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let (mut results, mut rounded) = (Vec::new(), Vec::new());
    for isa in Isa::ALL.into_iter().filter(|i| i.is_available()) {
        force(isa);
        let values = numbers(64, 0.37);
        let mut all = vec![dot(&values, &values)];
        let sums = |p| products(p).into_iter().chain(convolutions(p));
        all.extend(sums(Precision::F32).chain(softmaxes()).chain(functions()));
        results.push(all.into_iter().map(f32::to_bits).collect::<Vec<u32>>());
        rounded.push((isa, sums(Precision::Bf16).collect::<Vec<f32>>()));
    }
    assert!(results.windows(2).all(|w| w[0] == w[1]));
    for (isa, sums) in &rounded {
        // Sums of up to 333 terms below 1, which differ only by their order.
        let near = |(x, y): (&f32, &f32)| (x - y).abs() < 333.0 * 333.0 * f32::EPSILON;
        assert!(sums.iter().zip(&rounded[0].1).all(near), "{isa:?}");
        assert!(*isa == Isa::Amx || *sums == rounded[0].1, "{isa:?}");
    }
}

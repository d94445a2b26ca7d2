//! Convolutions with NaN and infinities in the filters: padding adds nothing, in every run, with
//! any number of threads, optimised or not.

use infer::Inputs;
use ir::ElementType::{F32, I8};
use ir::{Graph, GraphBuilder};
use irrun_runtime::{Options, Precision, Tensor, Threads, compile_with};
use std::sync::Arc;

/// A kind of convolution over images of `size` by `size`.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Input and output channels, and groups if the operation has them.
    channels: [usize; 2],
    groups: Option<usize>,
    size: usize,
    taps: usize,
    stride: usize,
    dilation: usize,
    pad: usize,
    /// Whether it is a transposed convolution.
    back: bool,
}

/// 1×1, Winograd, few input channels, strides and dilations, depthwise, grouped, few filters per
/// group, transposed.
fn kinds() -> Vec<Kind> {
    let plain = Kind {
        channels: [24, 20],
        groups: None,
        size: 9,
        taps: 3,
        stride: 1,
        dilation: 1,
        pad: 1,
        back: false,
    };
    vec![
        Kind { taps: 1, ..plain },
        Kind { channels: [32, 32], size: 16, ..plain },
        Kind { channels: [3, 8], taps: 5, stride: 2, pad: 2, ..plain },
        plain,
        Kind { stride: 2, ..plain },
        Kind { dilation: 2, pad: 2, ..plain },
        Kind { channels: [24, 24], groups: Some(24), ..plain },
        Kind { channels: [24, 24], groups: Some(6), ..plain },
        Kind { channels: [24, 12], groups: Some(3), ..plain },
        Kind { channels: [8, 16], groups: Some(8), ..plain },
        Kind { back: true, stride: 2, ..plain },
        Kind { back: true, ..plain },
        Kind { back: true, channels: [24, 24], groups: Some(3), stride: 2, ..plain },
    ]
}

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0).collect()
}

fn filters(kind: &Kind) -> Vec<f32> {
    let ([inputs, outputs], groups) = (kind.channels, kind.groups.unwrap_or(1));
    let mut filters = numbers(inputs * outputs / groups * kind.taps * kind.taps, 2);
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    // Every fifth or so is special, so that some outputs stay finite.
    let step = filters.len() / 5 + 1;
    filters.iter_mut().step_by(step).zip(special.iter().cycle()).for_each(|(f, s)| *f = *s);
    filters
}

/// The convolution, a ReLU that becomes a post-op or not, and a multiplication by a number.
fn graph(kind: &Kind) -> Graph {
    let mut g = GraphBuilder::new("convolution");
    let ([inputs, outputs], size) = (kind.channels, kind.size);
    let x = g.parameter("x", F32, &format!("1,{inputs},{size},{size}"));
    let (taps, own) = (kind.taps as u64, kind.groups.unwrap_or(1) as u64);
    let [own_in, own_out] = [inputs as u64 / own, outputs as u64 / own];
    let pair = if kind.back { [own_in, own_out] } else { [own_out, own_in] };
    let mut sizes = vec![pair[0], pair[1], taps, taps];
    if kind.groups.is_some() {
        sizes.insert(0, own);
    }
    let bytes: Vec<u8> = filters(kind).iter().flat_map(|f| f.to_le_bytes()).collect();
    let filters = g.constant(F32, &sizes, &bytes);
    let group = if kind.groups.is_some() { "Group" } else { "" };
    let back = if kind.back { "BackpropData" } else { "" };
    let [stride, dilation, pad] =
        [kind.stride, kind.dilation, kind.pad].map(|number| format!("{number},{number}"));
    let layer = g.layer(&format!("{group}Convolution{back}"), "opset1").attributes(&[
        ("strides", &stride),
        ("dilations", &dilation),
        ("pads_begin", &pad),
        ("pads_end", &pad),
    ]);
    let y = layer.inputs(&[x, filters]).output();
    g.result("y", y);
    g.finish().unwrap()
}

/// The sums by definition, in f64, so that their order does not matter.
fn definition(kind: &Kind, x: &[f32], size: usize) -> Vec<f64> {
    let (filters, [inputs, outputs]) = (filters(kind), kind.channels);
    let groups = kind.groups.unwrap_or(1);
    let [of_in, of_out] = [inputs / groups, outputs / groups];
    let (taps, pad) = (kind.taps, kind.pad as isize);
    // The input position that tap `k` of output `o` reads.
    let sees = |o: usize, k: usize| {
        let (o, step, k) = (o as isize, kind.stride as isize, (k * kind.dilation) as isize);
        let at = if kind.back { o + pad - k } else { o * step - pad + k };
        let at = if kind.back { (at % step == 0).then_some(at / step)? } else { at };
        usize::try_from(at).ok().filter(|at| *at < kind.size)
    };
    let mut sums = vec![0.0; outputs * size * size];
    for (i, sum) in sums.iter_mut().enumerate() {
        let (o, y, x_) = (i / size / size, i / size % size, i % size);
        for (c, k) in (0..of_in).flat_map(|c| (0..taps * taps).map(move |k| (c, k))) {
            let (Some(row), Some(column)) = (sees(y, k / taps), sees(x_, k % taps)) else {
                continue;
            };
            let channel = o / of_out * of_in + c;
            let filter = if kind.back { channel * of_out + o % of_out } else { o * of_in + c };
            let value = x[(channel * kind.size + row) * kind.size + column];
            *sum += f64::from(value) * f64::from(filters[filter * taps * taps + k]);
        }
    }
    sums
}

#[test]
fn every_run_skips_padding() {
    for kind in kinds() {
        let graph = graph(&kind);
        let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
        let values = numbers(kind.channels[0] * kind.size * kind.size, 5);
        let x = Tensor::from_vec(&[1, kind.channels[0], kind.size, kind.size], values.clone());
        let x = [x.unwrap()];
        let mut found: Vec<(String, Tensor)> = Vec::new();
        for (optimize, runs_once, threads) in
            [(true, false, 1), (true, false, 3), (true, true, 2), (false, false, 2)]
        {
            let options = Options { optimize, runs_once, ..Options::default() };
            let plan = compile_with(&graph, &facts, &options).unwrap();
            let mut session = plan.session_on(Arc::new(Threads::new(threads)));
            for run in 0..3 {
                let how = format!("{optimize} {runs_once} {threads}, run {run} of {kind:?}");
                found.push((how, session.run(&x).unwrap().remove(0)));
            }
        }
        let first = found[0].1.as_slice::<f32>().unwrap();
        for (how, own) in &found {
            let own = own.as_slice::<f32>().unwrap();
            let same =
                |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            assert!(own.iter().zip(first).all(same), "{how}");
        }
        let expected = definition(&kind, &values, found[0].1.sizes()[2]);
        assert!(expected.iter().any(|e| e.is_nan()) && expected.iter().any(|e| e.is_finite()));
        for (found, expected) in first.iter().zip(&expected) {
            let near = (f64::from(*found) - expected).abs() <= 1e-4;
            let special = f64::from(*found) == *expected || found.is_nan() && expected.is_nan();
            assert!(near || special, "{found}, not {expected} in {kind:?}");
        }
        in_bf16(&graph, &x);
    }
}

/// In bf16 too, every run gives the same bits.
fn in_bf16(graph: &Graph, x: &[Tensor]) {
    let facts = infer::propagate(graph, &Inputs::default()).unwrap();
    let options = Options { precision: Precision::Bf16, ..Options::default() };
    let mut session = compile_with(graph, &facts, &options).unwrap().session();
    let runs: Vec<Tensor> = (0..3).map(|_| session.run(x).unwrap().remove(0)).collect();
    let bits = |t: &Tensor| -> Vec<Option<u32>> {
        let values = t.as_slice::<f32>().unwrap().iter();
        values.map(|v| (!v.is_nan()).then_some(v.to_bits())).collect()
    };
    assert!(runs.iter().all(|run| bits(run) == bits(&runs[0])));
}

/// Integers are always finite, but their scales may not be. A window of padding alone gives 0.
#[test]
fn scales_of_integers_that_are_not_finite() {
    let mut g = GraphBuilder::new("levels");
    let x = g.parameter("x", F32, "1,16,4,4");
    let limits = [-1.0f32, 127.0 / 128.0];
    let [low, high] = limits.map(|limit| g.constant(F32, &[], &limit.to_le_bytes()));
    let levels = g.layer("FakeQuantize", "opset1").attribute("levels", "256");
    let levels = levels.inputs(&[x, low, high, low, high]).output();
    let filters: Vec<u8> = (0..16 * 16 * 9).map(|i| (i * 7 % 251) as u8).collect();
    let filters = g.constant(I8, &[16, 16, 3, 3], &filters);
    let filters =
        g.layer("Convert", "opset1").attribute("destination_type", "f32").inputs(&[filters]);
    let filters = filters.output();
    let scales = [f32::INFINITY, 0.5, f32::NAN, 0.25].repeat(4);
    let scales: Vec<u8> = scales.iter().flat_map(|s| s.to_le_bytes()).collect();
    let scales = g.constant(F32, &[16, 1, 1, 1], &scales);
    let filters = g.layer("Multiply", "opset1").inputs(&[filters, scales]).output();
    let layer = g.layer("Convolution", "opset1").attributes(&[
        ("strides", "1,1"),
        ("dilations", "1,1"),
        ("pads_begin", "4,4"),
        ("pads_end", "4,4"),
    ]);
    let y = layer.inputs(&[levels, filters]).output();
    g.result("y", y);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let x = [Tensor::from_vec(&[1, 16, 4, 4], numbers(256, 1)).unwrap()];
    for optimize in [true, false] {
        let options = Options { optimize, ..Options::default() };
        let mut session = compile_with(&graph, &facts, &options).unwrap().session();
        for _ in 0..2 {
            let y = session.run(&x).unwrap().remove(0);
            let y = y.as_slice::<f32>().unwrap();
            // The window of a corner is padding alone.
            assert!(y.chunks(100).all(|map| map[0] == 0.0), "{optimize}");
            assert!(y[55].is_nan() && y[155].is_finite() && y[255].is_nan(), "{optimize}");
        }
    }
}

/// The kernel for few output channels takes long lines only. Both kernels keep their packed
/// filters.
#[test]
fn lines_may_become_short_and_long_again() {
    let mut g = GraphBuilder::new("lines");
    let x = g.parameter("x", F32, "1,20,5,?");
    let filters = g.constant_f32(&[2, 20, 3, 3], &numbers(360, 3));
    let window =
        [("strides", "1,1"), ("dilations", "1,1"), ("pads_begin", "1,1"), ("pads_end", "1,1")];
    let y = g.layer("Convolution", "opset1").attributes(&window).inputs(&[x, filters]).output();
    g.result("y", y);
    let graph = g.finish().unwrap();
    let facts = infer::propagate(&graph, &Inputs::default()).unwrap();
    let plan = |optimize| {
        let options = Options { optimize, ..Options::default() };
        compile_with(&graph, &facts, &options).unwrap().session()
    };
    let (mut session, mut plain) = (plan(true), plan(false));
    for width in [64usize, 64, 8, 8, 64, 100] {
        let x = Tensor::from_vec(&[1, 20, 5, width], numbers(100 * width, width)).unwrap();
        let found = session.run(std::slice::from_ref(&x)).unwrap();
        assert_eq!(found, plain.run(&[x]).unwrap(), "{width}");
    }
}

//! Attention beside its definition.

use super::*;

fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0).collect()
}

/// The definition in f64.
fn reference(a: &Attention, head: &Head<'_>) -> Vec<f64> {
    let mut out = Vec::new();
    for i in 0..a.rows {
        let score = |j: usize| {
            let pairs = (0..a.depth).map(|k| {
                let (q, k) = (head.query[i * a.strides.query + k], head.key[j * a.strides.key + k]);
                f64::from(q) * f64::from(k)
            });
            let masks = head.masks.iter().flatten().filter(|_| !a.causal);
            let masked: f32 = masks.map(|m| m.values[i * m.row + j * m.column]).sum();
            if a.causal && j > i {
                f64::NEG_INFINITY
            } else {
                pairs.sum::<f64>() * f64::from(head.scale.unwrap_or(a.scale)) + f64::from(masked)
            }
        };
        let powers: Vec<f64> = (0..a.keys).map(|j| score(j).exp()).collect();
        let sink = head.sink.map_or(0.0, |s| f64::from(s.values[i * s.row]).exp());
        let sum = powers.iter().sum::<f64>() + sink;
        for v in 0..a.width {
            let weighted = powers.iter().enumerate();
            let of = |(j, p): (usize, &f64)| p * f64::from(head.value[j * a.strides.value + v]);
            out.push(weighted.map(of).sum::<f64>() / sum);
        }
    }
    out
}

#[test]
fn agrees_with_the_definition() {
    agrees(Precision::F32, 2e-5);
}

/// The scores are off by 2⁻⁷ of sums of at most 20 · 0.3, and the weights by as much.
#[test]
fn bf16_operands_stay_close() {
    agrees(Precision::Bf16, 0.05);
}

/// With enough rows for packing, and with few.
#[test]
fn without_keys_rows_are_zeros() {
    for (rows, sink) in [(1, false), (3, true), (70, false), (70, true)] {
        let (keys, depth, width, precision) = (0, 20, 33, Precision::F32);
        let strides = AttentionStrides::dense(depth, width);
        let (scale, causal) = (0.3, false);
        let a = Attention { rows, keys, depth, width, scale, causal, strides, precision };
        let (q, one) = (numbers(rows * depth, 1), [1.0]);
        let sink = sink.then_some(Mask { values: &one, row: 0, column: 0 });
        let head = |_| Head {
            query: &q,
            key: &[],
            value: &[],
            scale: None,
            masks: [None; MAX_MASKS],
            sink,
        };
        let mut out = vec![f32::NAN; rows * width];
        a.run(&Threads::new(2), &ScratchPool::default(), 1, head, |_| 0, &mut out);
        assert!(out.iter().all(|x| *x == 0.0));
    }
}

fn agrees(precision: Precision, bound: f64) {
    for (rows, keys, causal) in [(1, 40, false), (3, 7, true), (300, 150, false), (70, 70, true)] {
        for (masked, sink) in [(None, None), (Some(1), None), (Some(0), Some(1))] {
            let (depth, width, heads) = (20, 33, 3);
            // The heads are concatenated in each row.
            let dense = AttentionStrides::dense(depth, width);
            let (query, output) = (depth * heads, width * heads);
            let strides = AttentionStrides { query, output, ..dense };
            let a = Attention { rows, keys, depth, width, scale: 0.3, causal, strides, precision };
            let (q, k) = (numbers(rows * strides.query, 1), numbers(heads * keys * depth, 2));
            let (v, m) = (numbers(heads * keys * width, 3), numbers(rows * keys, 4));
            let head = |i: usize| Head {
                query: &q[i * depth..],
                key: &k[i * keys * depth..],
                value: &v[i * keys * width..],
                scale: masked.map(|_| 0.2 + 0.1 * i as f32),
                masks: [
                    masked.map(|column| Mask { values: &m, row: keys * column, column }),
                    masked.map(|_| Mask { values: &v, row: 0, column: 1 }),
                    masked.map(|_| Mask { values: &q, row: 1, column: 0 }),
                ],
                sink: sink.map(|row| Mask { values: &m, row, column: 0 }),
            };
            let mut results = Vec::new();
            for threads in [1, 2] {
                let mut out = vec![f32::NAN; rows * strides.output];
                let scratch = ScratchPool::default();
                a.run(&Threads::new(threads), &scratch, heads, head, |i| i * width, &mut out);
                results.push(out);
            }
            assert_eq!(results[0], results[1]);
            for i in 0..heads {
                for (at, exact) in reference(&a, &head(i)).iter().enumerate() {
                    let found = results[0][at / width * strides.output + i * width + at % width];
                    assert!((f64::from(found) - exact).abs() < bound, "{found} {exact}");
                }
            }
        }
    }
}

/// What hides keys: nothing for `None`.
const HIDING: [f32; 4] = [f32::NEG_INFINITY, f32::MIN, -65504.0, -1e4];

/// Keys that no row attends to are left out. A sink of -∞ has no weight, but with it all keys are
/// multiplied; the bits must be the same.
#[test]
fn hidden_keys_are_left_out_without_a_trace() {
    for (rows, keys) in [(70, 70), (50, 300), (101, 1300), (45, 2000)] {
        for hiding in HIDING {
            // Keys behind a row's own, and in the second case the first 9 and the last 20.
            for padded in [false, true] {
                let hides =
                    |i: usize, j: usize| j > i + keys - rows || padded && (j < 9 || j + 20 >= keys);
                let mask = |at: usize| if hides(at / keys, at % keys) { hiding } else { 0.0 };
                let mask: Vec<f32> = (0..rows * keys).map(mask).collect();
                leaves_no_trace(rows, keys, Some(&mask));
            }
        }
        leaves_no_trace(rows, keys, None);
    }
}

/// Without a mask, attention is causal.
fn leaves_no_trace(rows: usize, keys: usize, mask: Option<&[f32]>) {
    let (depth, width) = (20, 33);
    let strides = AttentionStrides::dense(depth, width);
    let (scale, causal, precision) = (0.3, mask.is_none(), Precision::F32);
    let a = Attention { rows, keys, depth, width, scale, causal, strides, precision };
    let (q, k) = (numbers(rows * depth, 1), numbers(keys * depth, 2));
    let v = numbers(keys * width, 3);
    let mask = mask.map(|values| Mask { values, row: keys, column: 1 });
    let whole = [f32::NEG_INFINITY];
    let sink = Some(Mask { values: &whole, row: 0, column: 0 });
    let run = |sink| {
        let head =
            Head { query: &q, key: &k, value: &v, scale: None, masks: [mask, None, None], sink };
        let mut out = vec![f32::NAN; rows * width];
        a.run(&Threads::new(2), &ScratchPool::default(), 1, |_| head, |_| 0, &mut out);
        (out, head)
    };
    let ((some, head), (all, _)) = (run(None), run(sink));
    let bits = |out: &[f32]| out.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
    assert!(bits(&some) == bits(&all), "{rows} {keys}");
    for (found, exact) in some.iter().zip(reference(&a, &head)) {
        assert!(exact.is_nan() || (f64::from(*found) - exact).abs() < 2e-5, "{found} {exact}");
    }
    let visible = VisibleKeys::new(&a, &head, 0..rows);
    assert!(visible.is_some_and(|visible| visible.count(rows / 2..rows / 2 + 1) < keys));
}

/// A weight of 0 times ∞ is NaN, and so is a score of ∞ that is hidden.
#[test]
fn keys_with_infinite_operands_are_not_left_out() {
    let (rows, keys, depth) = (45, 60, 16);
    let strides = AttentionStrides::dense(depth, depth);
    let (scale, causal, precision) = (0.3, false, Precision::F32);
    let a = Attention { rows, keys, depth, width: depth, scale, causal, strides, precision };
    let numbers = |len: usize| numbers(len, 1);
    let mut mask = vec![0.0; keys];
    mask[50..].fill(f32::NEG_INFINITY);
    for infinite in 0..4 {
        let (q, mut k, mut v) =
            (numbers(rows * depth), numbers(keys * depth), numbers(keys * depth));
        match infinite {
            0 => k[55 * depth] = f32::INFINITY,
            1 => v[55 * depth..].fill(f32::INFINITY),
            2 => v[55 * depth..].fill(f32::NAN),
            _ => k[55 * depth..].fill(f32::MAX),
        }
        let masks = [Some(Mask { values: &mask, row: 0, column: 1 }), None, None];
        let head = Head { query: &q, key: &k, value: &v, scale: None, masks, sink: None };
        assert!(VisibleKeys::new(&a, &head, 0..rows).is_none());
        let mut out = vec![0.0; rows * depth];
        a.run(&Threads::new(1), &ScratchPool::default(), 1, |_| head, |_| 0, &mut out);
        assert!(infinite == 3 || out.iter().any(|x| x.is_nan()), "{infinite}");
    }
}

/// Rounded as they are added, masks of both signs may leave a score that their sum would hide.
#[test]
fn keys_are_not_left_out_by_several_masks() {
    let (rows, keys, depth) = (60, 60, 16);
    let strides = AttentionStrides::dense(depth, depth);
    let (scale, causal, precision) = (0.3, false, Precision::F32);
    let a = Attention { rows, keys, depth, width: depth, scale, causal, strides, precision };
    let (q, k, v) = (numbers(rows * depth, 1), numbers(keys * depth, 2), numbers(keys * depth, 3));
    let (mut up, mut down) = (vec![0.0; keys], vec![0.0; keys]);
    up[50..].fill(-1e30);
    down[50..].fill(1e29);
    let mask = |values| Some(Mask { values, row: 0, column: 1 });
    let head = |masks| Head { query: &q, key: &k, value: &v, scale: None, masks, sink: None };
    assert!(VisibleKeys::new(&a, &head([mask(&up), None, None]), 0..rows).is_some());
    assert!(VisibleKeys::new(&a, &head([mask(&up), mask(&down), None]), 0..rows).is_none());
}

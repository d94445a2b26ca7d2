//! Interpolation against the definition.

use super::*;
use crate::base::par::Threads;

fn halves(size: usize) -> Taps {
    let mut taps = Taps::default();
    (0..size / 2).for_each(|i| taps.push([(2 * i, 0.5), (2 * i + 1, 0.5)]));
    taps
}

#[test]
fn axes_are_averaged_in_any_order() {
    let data: Vec<f32> = (0..2 * 4 * 6 * 3).map(|i: usize| (i * i % 97) as f32).collect();
    let expected: Vec<f32> = (0..2 * 2 * 3 * 3)
        .map(|i: usize| {
            let (n, y, x, c) = (i / 18, i / 9 % 2, i / 3 % 3, i % 3);
            let at = |dy, dx| data[((n * 4 + 2 * y + dy) * 6 + 2 * x + dx) * 3 + c];
            (at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1)) / 4.0
        })
        .collect();
    let (y, x) = ((1, halves(4)), (2, halves(6)));
    for axes in [[y.clone(), x.clone()], [x, y]] {
        let mut out = vec![0.0; expected.len()];
        let resample = Resample::new(&[2, 4, 6, 3], &axes);
        let mut scratch = vec![f32::NAN; resample.scratch_len(3)];
        resample.run(&Threads::new(3), &|_| (), &data, &mut out, &mut scratch);
        assert_eq!(out, expected);
    }
}

#[test]
fn integers_round_and_saturate() {
    let mut taps = Taps::default();
    taps.push([(0, 0.5)]);
    taps.push([(0, 2.0), (1, 1.0)]);
    taps.push([]);
    let ((load, save), (mut data, mut sums)) = (u8::WAYS.unwrap(), ([0.0; 2], [0.0; 3]));
    load(&[101, 70], &mut data);
    let resample = Resample::new(&[2], &[(0, taps)]);
    resample.run(Threads::single(), &|_| (), &data, &mut sums, &mut []);
    let mut out = [9; 3];
    save(&sums, &mut out);
    assert_eq!(out, [50, 255, 0]);
}

#[test]
fn elements_are_picked() {
    let data: Vec<u8> = (0..24).collect();
    let pick = Pick::new(&[2, 3, 4], &[None, Some(vec![2, 0]), None]);
    let mut out = [0; 16];
    pick.run(Threads::single(), &data, &mut out);
    assert_eq!(out, [8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15]);
    let pick = Pick::new(&[2, 3, 4], &[Some(vec![1]), None, Some(vec![3, 3])]);
    let mut out = [0; 6];
    pick.run(Threads::single(), &data, &mut out);
    assert_eq!(out, [15, 15, 19, 19, 23, 23]);
}

/// Data whose sums depend on the order.
fn data(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 37 % 101) as f32 * 0.37 - 15.0).collect()
}

/// Taps at the position of each element of an axis that is resized: two, or four as for cubic
/// interpolation.
fn around(input: usize, output: usize, count: usize) -> Taps {
    let mut taps = Taps::default();
    for i in 0..output {
        let at = i as f64 * input as f64 / output as f64;
        let tap = |tap: usize| {
            let index = (at as usize + tap).saturating_sub(count / 2 - 1).min(input - 1);
            (index, 0.7 - 0.3 * tap as f64 + at.fract())
        };
        taps.push((0..count).map(tap));
    }
    taps
}

/// Each axis alone, tap by tap.
fn along_axis(sizes: &[usize; 3], axis: usize, taps: &Taps, from: &[f32]) -> Vec<f32> {
    let (outer, inner) = (sizes[..axis].iter().product(), sizes[axis + 1..].iter().product());
    let mut to = Vec::new();
    for (o, element, i) in (0..outer)
        .flat_map(|o| (0..taps.len()).flat_map(move |e| (0..inner).map(move |i| (o, e, i))))
    {
        let value = |sum: f32, (index, weight): &(usize, f64)| {
            sum + *weight as f32 * from[(o * sizes[axis] + index) * inner + i]
        };
        to.push(taps.each().nth(element).unwrap_or_default().iter().fold(0.0, value));
    }
    to
}

/// Rows of all lengths around the windows of vectors, stretched and shrunk, in both orders of axes.
#[test]
fn rows_have_the_bits_of_the_definition() {
    for (width, output, count) in [
        (5, 17, 2),
        (31, 62, 2),
        (32, 64, 4),
        (33, 100, 2),
        (40, 20, 4),
        (75, 150, 2),
        (90, 70, 4),
        (200, 40, 2),
        (1, 3, 2),
        (64, 1, 4),
    ] {
        let sizes = [2, 6, width];
        let (high, wide) = (around(6, 9, count), around(width, output, count));
        let from = data(2 * 6 * width);
        for wide_first in [true, false] {
            let axes = [(1, high.clone()), (2, wide.clone())];
            let axes = if wide_first { [axes[1].clone(), axes[0].clone()] } else { axes };
            let expected = if wide_first {
                let lines = along_axis(&sizes, 2, &wide, &from);
                along_axis(&[2, 6, output], 1, &high, &lines)
            } else {
                along_axis(&[2, 9, width], 2, &wide, &along_axis(&sizes, 1, &high, &from))
            };
            let resample = Resample::new(&sizes, &axes);
            for threads in [1, 3] {
                let mut scratch = vec![f32::NAN; resample.scratch_len(threads)];
                let mut to = vec![f32::NAN; expected.len()];
                resample.run(&Threads::new(threads), &|_| (), &from, &mut to, &mut scratch);
                assert_eq!(to, expected, "{width} to {output}, {wide_first}");
            }
        }
    }
}

/// The first axis shrinks to one element, before the others or after them.
#[test]
fn an_axis_may_shrink_to_one_element() {
    let from = data(2 * 23 * 3);
    let (one, wide) = (around(23, 1, 2), around(3, 7, 2));
    let expected = along_axis(&[2, 1, 3], 2, &wide, &along_axis(&[2, 23, 3], 1, &one, &from));
    let resample = Resample::new(&[2, 23, 3], &[(1, one), (2, wide)]);
    let mut scratch = vec![f32::NAN; resample.scratch_len(1)];
    let mut to = vec![f32::NAN; expected.len()];
    resample.run(Threads::single(), &|_| (), &from, &mut to, &mut scratch);
    assert_eq!(to, expected);
}

#[test]
fn nothing_is_resampled() {
    for sizes in [[0, 4, 4, 3], [2, 4, 4, 0]] {
        let axes = [(2, around(4, 8, 2)), (1, around(4, 8, 2))];
        let resample = Resample::<f32>::new(&sizes, &axes);
        let mut scratch = vec![0.0; resample.scratch_len(1)];
        resample.run(Threads::single(), &|_| (), &[], &mut [], &mut scratch);
    }
}

#[test]
fn nearest_rows_are_looked_up() {
    for (width, output) in [(5, 17), (20, 40), (31, 62), (33, 100), (150, 75), (300, 40)] {
        let choices: Vec<usize> = (0..output).map(|i| i * width / output).collect();
        let pick = Pick::new(&[3, width], &[Some(vec![2, 2, 0]), Some(choices.clone())]);
        let from = data(3 * width);
        let mut to = vec![0.0; 3 * output];
        pick.run(&Threads::new(2), &from, &mut to);
        let row = |row: usize| choices.iter().map(move |at| (row, at));
        let expected: Vec<f32> =
            [2, 2, 0].into_iter().flat_map(row).map(|(row, at)| from[row * width + at]).collect();
        assert_eq!(to, expected, "{width} to {output}");
    }
}

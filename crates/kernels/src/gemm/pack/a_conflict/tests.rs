use crate::base::num::UnalignedF32;
use crate::base::par::Threads;
use crate::base::scratch::ScratchPool;
use crate::base::workers::Packer;
use crate::gemm::*;

/// Compares a GEMM, with element `i` of row `row` of A equal to `of(row, i)`, with chains of fused
/// multiply-adds.
fn is_chains(
    (m, n, k): (usize, usize, usize),
    (a, blocks): (Lhs<'_>, KBlocks),
    of: impl Fn(usize, usize) -> f32,
    what: &str,
) {
    let threads = Threads::new(2);
    let b: Vec<f32> = (0..k * n).map(|i| (i * 29 % 83) as f32 / 41.0 - 1.0).collect();
    let layout = Layout::Rows { stride: n };
    let arena = Packer::unpooled(&threads);
    let packed = Packed::new(arena, UnalignedF32::of(&b), layout, RhsSize { k, n }, Precision::F32);
    let mut c = vec![f32::NAN; m * n];
    let b_as = Rhs::Packed(&packed);
    let gemm = Gemm { m, n, k, a, b: b_as, c_stride: n, precision: Precision::F32, post_ops: &[] };
    gemm.run(&threads, &ScratchPool::default(), &mut c);
    for (i, found) in c.iter().enumerate() {
        let (row, column) = (i / n, i % n);
        let chain = |block: std::ops::Range<usize>| {
            block.fold(0f32, |sum, p| of(row, p).mul_add(b[p * n + column], sum))
        };
        let sum = blocks.iter().map(chain).fold(-0.0, |sum, chain| sum + chain);
        assert_eq!(*found, sum, "{what}: {row} {column}");
    }
}

fn values(len: usize) -> Vec<f32> {
    (0..len).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect()
}

/// Any number of rows, pages apart; also rows that are not whole cache lines.
#[test]
fn rows_that_lie_pages_apart_are_chains() {
    let all = values(30 * 2048);
    for (m, stride, k) in [8, 9, 13, 14, 23, 30].iter().flat_map(|m| {
        [(1024, 1024), (2048, 2048), (1024, 1008), (1024, 1003)].map(|s| (*m, s.0, s.1))
    }) {
        let a = Lhs::Rows { values: &all, stride };
        let of = |row: usize, i: usize| all[row * stride + i];
        is_chains((m, 45, k), (a, KBlocks::of_row(k)), of, &format!("{m} {stride} {k}"));
    }
}

/// Runs in any order, of rows that are whole pages; blocks along k are parts of runs.
#[test]
fn runs_that_lie_pages_apart_are_chains() {
    let (m, run) = (25, 3072);
    let all = values(9 * run);
    let runs: Vec<u32> = (0..2 * m as u32).map(|i| i * 5 % 9).collect();
    let of = |row: usize, i: usize| all[runs[2 * row + i / run] as usize * run + i % run];
    let a = (Lhs::Runs { values: &all, runs: &runs, run }, KBlocks::of_row(2 * run));
    is_chains((m, 33, 2 * run), a, of, "runs");
}

/// Windows with positions that are pages apart, and taps outside the input.
#[test]
fn windows_that_lie_pages_apart_are_chains() {
    let (channels, width) = (512, 21);
    let input = values(2 * width * channels);
    let zeros = vec![0.0; channels];
    let window = |input, taps, stride, start| {
        let output = (input + 1 - taps + 1) / stride;
        Window { input, output, taps, stride, dilation: 1, start }
    };
    let axes = [Window::NONE, window(2, 2, 1, 0), window(width, 3, 2, -1)];
    let strides = InputStrides::channels_last(2 * width, channels);
    let windows = Im2col { input: &input, axes, strides, channels: 0..channels, zeros: &zeros };
    let (m, k) = (axes[1].output * axes[2].output, 6 * channels);
    let of = |row: usize, i: usize| {
        let (tap, y, x) = (i / channels, row / axes[2].output, row % axes[2].output);
        let at = axes[1].position(y, tap / 3).zip(axes[2].position(x, tap % 3));
        at.map_or(0.0, |(y, x)| input[(y * width + x) * channels + i % channels])
    };
    is_chains((m, 40, k), (Lhs::Im2col(&windows), windows.k_blocks()), of, "windows");
}

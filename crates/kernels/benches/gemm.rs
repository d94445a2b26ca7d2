//! GEMM in f32 and bf16: shapes of transformers and of pointwise convolutions, with B packed
//! before, as for weights, and few rows of A with B as it is stored, as for one token.

use criterion::{Criterion, Throughput};
use irrun_kernels::gemm::{Gemm, Layout, Lhs, Packed, Precision, Rhs, RhsSize};
use irrun_kernels::num::UnalignedF32;
use irrun_kernels::par::Threads;
use irrun_kernels::{Packer, ScratchPool};
use std::time::Duration;

/// Rows, columns, and length of the sums.
struct Size {
    m: usize,
    n: usize,
    k: usize,
}

const fn size(m: usize, n: usize, k: usize) -> Size {
    Size { m, n, k }
}

const PACKED: [Size; 5] = [
    size(128, 768, 768),
    size(128, 3072, 768),
    size(197, 768, 3072),
    size(3136, 256, 64),
    size(49, 512, 2048),
];

const UNPACKED: [Size; 3] = [size(1, 2048, 2048), size(4, 2048, 2048), size(8, 768, 3072)];

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect()
}

fn packed(criterion: &mut Criterion, precision: Precision) {
    let threads = Threads::new(2);
    let mut group = criterion.benchmark_group(format!("packed {precision:?}"));
    for Size { m, n, k } in PACKED {
        let (a, b, mut c) = (values(m * k), values(k * n), vec![0.0; m * n]);
        let to = Packer::unpooled(&threads);
        let layout = Layout::Rows { stride: n };
        let b = Packed::new(to, UnalignedF32::of(&b), layout, RhsSize { k, n }, precision);
        let (a, b) = (Lhs::Rows { values: &a, stride: k }, Rhs::Packed(&b));
        let gemm = Gemm { m, n, k, a, b, c_stride: n, precision, post_ops: &[] };
        let scratch = ScratchPool::default();
        group.throughput(Throughput::Elements((2 * m * n * k) as u64));
        group.bench_function(format!("{m}×{n}×{k}"), |bencher| {
            bencher.iter(|| gemm.run(&threads, &scratch, &mut c));
        });
    }
}

fn unpacked(criterion: &mut Criterion) {
    let threads = Threads::new(2);
    let mut group = criterion.benchmark_group("unpacked F32");
    for Size { m, n, k } in UNPACKED {
        let (a, b, mut c) = (values(m * k), values(k * n), vec![0.0; m * n]);
        let a = Lhs::Rows { values: &a, stride: k };
        let b = Rhs::Unpacked(UnalignedF32::of(&b), Layout::Columns { stride: k });
        let precision = Precision::F32;
        let gemm = Gemm { m, n, k, a, b, c_stride: n, precision, post_ops: &[] };
        let scratch = ScratchPool::default();
        group.throughput(Throughput::Elements((2 * m * n * k) as u64));
        group.bench_function(format!("{m}×{n}×{k}"), |bencher| {
            bencher.iter(|| gemm.run(&threads, &scratch, &mut c));
        });
    }
}

fn main() {
    let criterion = Criterion::default().sample_size(20).without_plots();
    let criterion = criterion.warm_up_time(Duration::from_millis(100));
    let mut criterion =
        criterion.measurement_time(Duration::from_millis(700)).configure_from_args();
    packed(&mut criterion, Precision::F32);
    packed(&mut criterion, Precision::Bf16);
    unpacked(&mut criterion);
    criterion.final_summary();
}

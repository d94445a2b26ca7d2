//! The cost of fork and join: jobs of 0, 5 and 50 µs per thread; and Roll, the shortest work that
//! pays, at the shapes of `benches/movement.py`.

use criterion::{Criterion, Throughput};
use irrun_kernels::AlignedBuf;
use irrun_kernels::par::Threads;
use irrun_kernels::roll::RollPlan;
use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

const SMALL: &[usize] = &[3, 10, 100, 200];
const SWIN: &[usize] = &[1, 56, 56, 96];
const LARGE: &[usize] = &[8, 224, 224, 64];
const LONG: &[usize] = &[64, 1024, 1024];

/// Bytes of an element, sizes, shifts.
type Case = (usize, &'static [usize], &'static [i64]);

const ROLLS: [Case; 24] = [
    (4, SMALL, &[1, 0, 0, 0]),
    (4, SMALL, &[0, 0, 0, 7]),
    (4, SMALL, &[0, 0, -3, -3]),
    (4, SMALL, &[1, 3, 5, 7]),
    (4, SWIN, &[0, -3, -3, 0]),
    (4, SWIN, &[0, 0, 0, 5]),
    (4, SWIN, &[0, 3, 3, 5]),
    (4, LARGE, &[0, -3, -3, 0]),
    (4, LARGE, &[3, 0, 0, 0]),
    (4, LARGE, &[0, 0, 0, 5]),
    (4, LARGE, &[1, 3, 5, 7]),
    (4, LONG, &[0, -3, -3]),
    (4, LONG, &[3, 0, 0]),
    (4, LONG, &[0, 0, 5]),
    (4, LONG, &[1, 3, 5]),
    (1, SWIN, &[0, -3, -3, 0]),
    (1, SWIN, &[0, 0, 0, 5]),
    (1, LARGE, &[0, -3, -3, 0]),
    (2, SWIN, &[0, -3, -3, 0]),
    (2, SWIN, &[0, 0, 0, 5]),
    (2, LARGE, &[0, -3, -3, 0]),
    (8, SWIN, &[0, -3, -3, 0]),
    (8, SWIN, &[0, 0, 0, 5]),
    (8, LARGE, &[0, -3, -3, 0]),
];

/// One task for each of two threads.
fn jobs(criterion: &mut Criterion) {
    let threads = Threads::new(2);
    let mut group = criterion.benchmark_group("job");
    for micros in [0, 5, 50] {
        let work = Duration::from_micros(micros);
        group.bench_function(format!("{micros} µs"), |bencher| {
            bencher.iter(|| threads.run(2, &|task, _| busy(black_box(task), work)));
        });
    }
}

/// Spins for a given time.
fn busy(_task: usize, work: Duration) {
    if work.is_zero() {
        return;
    }
    let start = Instant::now();
    while start.elapsed() < work {
        spin_loop();
    }
}

fn rolls(criterion: &mut Criterion) {
    let threads = Threads::new(2);
    let mut group = criterion.benchmark_group("roll");
    for (element, sizes, shifts) in ROLLS {
        let bytes = sizes.iter().product::<usize>() * element;
        let plan = RollPlan::new(sizes, shifts, element);
        let (from, mut to) = (AlignedBuf::zeroed(bytes), AlignedBuf::zeroed(bytes));
        let (from, to) = (from.elements(), to.elements_mut());
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("{element} bytes {sizes:?} by {shifts:?}"), |bencher| {
            bencher.iter(|| plan.run(&threads, from, to));
        });
    }
}

fn short() -> Criterion {
    let criterion = Criterion::default().sample_size(20).without_plots();
    criterion.warm_up_time(Duration::from_millis(100)).measurement_time(Duration::from_millis(700))
}

fn main() {
    let mut criterion = short().configure_from_args();
    jobs(&mut criterion);
    rolls(&mut criterion);
    criterion.final_summary();
}

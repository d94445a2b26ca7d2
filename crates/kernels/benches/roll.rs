//! `roll SIZES ELEMENT SHIFTS THREADS SECONDS`: medians of Roll and of a copy of the same bytes by
//! the same threads, alternating, with the same warm buffers; JSON on one line.

use irrun_kernels::AlignedBuf;
use irrun_kernels::par::Threads;
use irrun_kernels::roll::RollPlan;
use std::str::FromStr;
use std::time::Instant;

fn main() {
    // Cargo adds a flag of its own.
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let [sizes, element, shifts, threads, seconds] = args.as_slice() else {
        eprintln!(
            "roll SIZES ELEMENT SHIFTS THREADS SECONDS, as in: roll 1,56,56,96 4 0,-3,-3,0 2 0.5"
        );
        return;
    };
    let (sizes, shifts) = (list::<usize>(sizes), list::<i64>(shifts));
    let (element, threads) = (number(element), Threads::new(number(threads)));
    let bytes = sizes.iter().product::<usize>() * element;
    let plan = RollPlan::new(&sizes, &shifts, element);
    // In large pages from some size on, as in the runtime and numpy.
    let (mut from, mut to) = (AlignedBuf::zeroed(bytes), AlignedBuf::zeroed(bytes));
    for (i, byte) in from.elements_mut::<u8>().iter_mut().enumerate() {
        *byte = (i * 31 % 251) as u8;
    }
    let (from, to) = (from.elements(), to.elements_mut());
    let (mut rolls, mut copies) = (Vec::new(), Vec::new());
    let (begin, seconds) = (Instant::now(), number::<f64>(seconds));
    while rolls.is_empty() || begin.elapsed().as_secs_f64() < seconds {
        turn(&mut rolls, || plan.run(&threads, from, to));
        turn(&mut copies, || copy(&threads, from, to));
    }
    let (roll, copy, runs) = (median(&rolls), median(&copies), rolls.len());
    println!(
        "{{\"bytes\": {bytes}, \"roll_ms\": {roll}, \"memcpy_ms\": {copy}, \"runs\": {runs}}}"
    );
}

/// One part per thread.
fn copy(threads: &Threads, from: &[u8], to: &mut [u8]) {
    let part = to.len().div_ceil(threads.count()).next_multiple_of(64);
    threads.par_chunks_mut(to, part, part, |first, chunk| {
        let start = first * part;
        chunk.copy_from_slice(&from[start..start + chunk.len()]);
    });
}

/// Adds the times of ten runs, after two that warm the caches again.
fn turn(times: &mut Vec<f64>, mut f: impl FnMut()) {
    times.extend((0..12).map(|_| timed(&mut f)).skip(2));
}

/// Milliseconds.
fn timed(f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_secs_f64() * 1e3
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn number<T: FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("\"{text}\" is not a number"))
}

fn list<T: FromStr>(text: &str) -> Vec<T> {
    text.split(',').map(number).collect()
}

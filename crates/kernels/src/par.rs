//! Threads that wait for short work: a fork-join pool.
//!
//! A step of a model often takes tens of microseconds, so the pool is built for the latency of a
//! fork and a join: the calling thread works too, helpers spin for a while before they sleep, and
//! a helper that wakes too late is not waited for. `docs/architecture.md` has the comparison with
//! rayon that this is based on.

use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How long a helper looks for work before it sleeps. Longer than what one thread alone does
/// between the parallel steps of most models, since waking it takes as long as ten small steps.
const PATIENCE: Duration = Duration::from_millis(2);

/// How often it looks before it looks at the clock: some microseconds.
const SPINS: usize = 128;

/// A pool of threads. The thread that calls [`Threads::run`] is one of them.
pub struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    /// Held while a job runs; a second caller runs its job alone.
    busy: Mutex<()>,
}

/// The job: a function of (task, worker).
type Job = *const (dyn Fn(usize, usize) + Sync);

struct Shared {
    /// Bits 0..16: helpers inside the job; bit 16: the job may be entered; above: its number.
    state: AtomicU64,
    /// Written while the job may not be entered and nobody is inside.
    job: UnsafeCell<Option<Job>>,
    /// For each thread the tasks that are its own and not taken: the first, and above it the end.
    shares: Vec<Share>,
    panicked: AtomicBool,
    stop: AtomicBool,
    sleeping: Vec<AtomicBool>,
    threads: Mutex<Vec<Thread>>,
}

/// A cache line of its own, so that threads that take their own tasks do not wait for each other.
#[repr(align(128))]
struct Share(AtomicU64);

impl Share {
    /// Tasks that can be counted.
    const MOST: usize = u32::MAX as usize;

    fn set(&self, tasks: Range<usize>) {
        self.0.store((tasks.end as u64) << 32 | tasks.start as u64, Ordering::Relaxed);
    }

    /// Takes the first task, or the last for a thread that helps another.
    fn take(&self, first: bool) -> Option<usize> {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tasks| {
            let (start, end) = (tasks & u64::from(u32::MAX), tasks >> 32);
            (start < end).then(|| if first { tasks + 1 } else { tasks - (1 << 32) })
        });
        taken.ok().map(|tasks| if first { tasks as u32 } else { (tasks >> 32) as u32 - 1 } as usize)
    }
}

// SAFETY: `job` is written by the caller of `run`, who holds `busy`, only while `state` says that
// nobody may enter and nobody is inside; it is read only by helpers that have entered. The
// function it points to is `Sync` and outlives the job, which `run` waits for.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer is used only while the function it points to is borrowed.
unsafe impl Send for Shared {}

const OPEN: u64 = 1 << 16;
const INSIDE: u64 = OPEN - 1;
const NUMBER: u64 = !(INSIDE | OPEN);

thread_local! {
    /// Set while the thread works on a job, so that a job inside a job runs on its own thread.
    static WORKING: Cell<bool> = const { Cell::new(false) };
}

impl Threads {
    /// A pool of `count` threads, the caller included; at least one.
    pub fn new(count: usize) -> Threads {
        let helpers = count.max(1) - 1;
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            shares: (0..=helpers).map(|_| Share(AtomicU64::new(0))).collect(),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            sleeping: (0..helpers).map(|_| AtomicBool::new(false)).collect(),
            threads: Mutex::new(Vec::new()),
        });
        let spawn = |helper: usize| {
            let shared = Arc::clone(&shared);
            let name = format!("irrun-{}", helper + 1);
            std::thread::Builder::new().name(name).spawn(move || shared.help(helper))
        };
        // Where the system refuses a thread, the pool is smaller.
        let handles: Vec<JoinHandle<()>> = (0..helpers).map_while(|i| spawn(i).ok()).collect();
        *shared.threads.lock().unwrap_or_else(|e| e.into_inner()) =
            handles.iter().map(|h| h.thread().clone()).collect();
        Threads { shared, handles, busy: Mutex::new(()) }
    }

    /// The calling thread alone.
    pub fn single() -> &'static Threads {
        static SINGLE: LazyLock<Threads> = LazyLock::new(|| Threads::new(1));
        &SINGLE
    }

    /// Number of threads, the caller included.
    pub fn count(&self) -> usize {
        self.handles.len() + 1
    }

    /// Calls `f(task, worker)` for every task, on all threads; `worker` is below [`Self::count`]
    /// and no two threads share one at a time. Each thread begins with its part of the tasks, the
    /// same in every job: rows that it has written are in its cache when the next step reads them.
    ///
    /// # Panics
    /// When `f` does.
    pub fn run(&self, tasks: usize, f: &(dyn Fn(usize, usize) + Sync)) {
        let guard = match tasks {
            0 | 1 => None,
            _ if self.handles.is_empty() || WORKING.get() || tasks > Share::MOST => None,
            _ => self.busy.try_lock().ok(),
        };
        if guard.is_none() {
            (0..tasks).for_each(|task| f(task, 0));
            return;
        }
        self.shared.open(tasks, f, tasks.min(self.count()) - 1);
        WORKING.set(true);
        let work = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.shared.work(f, 0);
        }));
        WORKING.set(false);
        self.shared.close();
        drop(guard);
        if let Err(payload) = work {
            std::panic::resume_unwind(payload);
        }
        assert!(!self.shared.panicked.swap(false, Ordering::Relaxed), "a parallel task panicked");
    }

    /// Divides `0..len` into ranges of at least `grain` and calls `f` with each. Small work stays
    /// on the calling thread.
    #[inline]
    pub fn ranges(&self, len: usize, grain: usize, f: impl Fn(Range<usize>) + Sync) {
        self.divide(len, grain, &|range, _| f(range));
    }

    /// As [`Threads::ranges`], telling the worker as [`Threads::run`] does.
    #[inline]
    pub fn ranges_with(&self, len: usize, grain: usize, f: impl Fn(Range<usize>, usize) + Sync) {
        self.divide(len, grain, &f);
    }

    /// The one function behind all ranges: a kernel's code is there once, whoever calls it.
    fn divide(&self, len: usize, grain: usize, f: &(dyn Fn(Range<usize>, usize) + Sync)) {
        let grain = grain.max(1);
        if len <= grain || self.count() == 1 {
            if len > 0 {
                f(0..len, 0);
            }
            return;
        }
        // A few pieces per thread even out threads of different speed; as much for each thread.
        let pieces = len.div_ceil(grain).next_multiple_of(self.count());
        let pieces = pieces.min(self.count() * 4).min(len);
        let start = |piece: usize| len / pieces * piece + len % pieces * piece / pieces;
        self.run(pieces, &|piece, worker| {
            f(start(piece)..start(piece + 1), worker);
        });
    }

    /// Divides `out` into runs of whole chunks, at least `grain` elements each, and calls
    /// `f(index of the first chunk, chunks)` with each run.
    #[inline]
    pub fn chunks<T: Send>(
        &self,
        out: &mut [T],
        chunk: usize,
        grain: usize,
        f: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let chunk = chunk.max(1);
        let len = out.len();
        let shared = Slice { data: out.as_mut_ptr() };
        self.ranges(len.div_ceil(chunk), grain.div_ceil(chunk), |chunks| {
            let (start, end) = (chunks.start * chunk, (chunks.end * chunk).min(len));
            // SAFETY: the ranges are disjoint and lie within `out`, which is borrowed mutably.
            let part = unsafe { std::slice::from_raw_parts_mut(shared.at(start), end - start) };
            f(chunks.start, part);
        });
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for handle in self.handles.drain(..) {
            handle.thread().unpark();
            // A helper that panicked has been reported by `run`.
            let _ = handle.join();
        }
    }
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Threads({})", self.count())
    }
}

impl Shared {
    fn open(&self, tasks: usize, f: &(dyn Fn(usize, usize) + Sync), wanted: usize) {
        // SAFETY: the lifetime is erased only until `close` has waited for every helper.
        let f: &'static (dyn Fn(usize, usize) + Sync) = unsafe { std::mem::transmute(f) };
        // SAFETY: the job is closed and nobody is inside, so nobody reads it.
        unsafe { *self.job.get() = Some(f) };
        let count = self.shares.len();
        for (i, share) in self.shares.iter().enumerate() {
            share.set(tasks * i / count..tasks * (i + 1) / count);
        }
        let number = (self.state.load(Ordering::Relaxed) & NUMBER).wrapping_add(OPEN << 1);
        self.state.store(number | OPEN, Ordering::SeqCst);
        let mut wanted = wanted;
        for (helper, sleeping) in self.sleeping.iter().enumerate() {
            if wanted == 0 {
                break;
            }
            wanted -= 1;
            if sleeping.swap(false, Ordering::SeqCst) {
                let threads = self.threads.lock().unwrap_or_else(|e| e.into_inner());
                if let Some(thread) = threads.get(helper) {
                    thread.unpark();
                }
            }
        }
    }

    fn close(&self) {
        self.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0;
        while self.state.load(Ordering::Acquire) & INSIDE != 0 {
            wait(&mut spins);
        }
    }

    /// Takes a thread's own tasks, then those of others.
    fn work(&self, f: &(dyn Fn(usize, usize) + Sync), worker: usize) {
        for i in 0..self.shares.len() {
            let share = &self.shares[(worker + i) % self.shares.len()];
            while let Some(task) = share.take(i == 0) {
                f(task, worker);
            }
        }
    }

    /// The life of a helper: wait for a job, enter it, work, leave.
    fn help(&self, helper: usize) {
        WORKING.set(true);
        let mut seen = 0;
        while let Some(number) = self.enter(helper, seen) {
            seen = number;
            // SAFETY: this helper has entered, so the job was written before and stays until it
            // leaves.
            if let Some(f) = unsafe { *self.job.get() } {
                // SAFETY: `run` keeps the function alive until every helper has left.
                let f = unsafe { &*f };
                let work = std::panic::AssertUnwindSafe(|| self.work(f, helper + 1));
                if std::panic::catch_unwind(work).is_err() {
                    self.panicked.store(true, Ordering::Relaxed);
                }
            }
            self.state.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Waits for a job other than number `seen` and enters it; `None` when the pool ends.
    fn enter(&self, helper: usize, seen: u64) -> Option<u64> {
        let (mut spins, mut since) = (0, None);
        loop {
            if self.stop.load(Ordering::Acquire) {
                return None;
            }
            let state = self.state.load(Ordering::Acquire);
            let number = state & NUMBER;
            if state & OPEN != 0 && number != seen {
                let entered = self.state.compare_exchange_weak(
                    state,
                    state + 1,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
                if entered.is_ok() {
                    return Some(number);
                }
                continue;
            }
            spins += 1;
            if spins % SPINS != 0 || since.get_or_insert_with(Instant::now).elapsed() < PATIENCE {
                std::hint::spin_loop();
                continue;
            }
            self.sleeping[helper].store(true, Ordering::SeqCst);
            // A job opened just before the flag was set would not wake this thread.
            let state = self.state.load(Ordering::SeqCst);
            let open = state & OPEN != 0 && state & NUMBER != seen;
            if !open && !self.stop.load(Ordering::SeqCst) {
                std::thread::park();
            }
            self.sleeping[helper].store(false, Ordering::SeqCst);
            since = None;
        }
    }
}

/// Spins, and lets others run when it takes long.
fn wait(spins: &mut usize) {
    *spins += 1;
    if spins.is_multiple_of(4096) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// A slice that several threads write disjoint parts of.
#[derive(Clone, Copy)]
pub struct Slice<T> {
    data: *mut T,
}

// SAFETY: whoever calls `at` answers for writing disjoint parts.
unsafe impl<T: Send> Sync for Slice<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Slice<T> {}

impl<T> Slice<T> {
    /// Shares a slice for as long as the borrow lasts; the caller keeps to that.
    pub fn new(data: &mut [T]) -> Slice<T> {
        Slice { data: data.as_mut_ptr() }
    }

    /// The part from `offset` on.
    ///
    /// # Safety
    /// `offset` is within the slice.
    pub(crate) unsafe fn from(&self, offset: usize) -> Slice<T> {
        // SAFETY: the caller has promised that the offset is within the slice.
        Slice { data: unsafe { self.data.add(offset) } }
    }

    /// The element at `offset`.
    ///
    /// # Safety
    /// `offset` is within the slice, and no other thread uses what is written through it.
    pub unsafe fn at(&self, offset: usize) -> *mut T {
        // SAFETY: the caller has promised that the offset is within the slice.
        unsafe { self.data.add(offset) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn every_task_runs_once() {
        for count in [1, 2, 5] {
            let threads = Threads::new(count);
            for round in 0..200 {
                let hits: Vec<AtomicUsize> = (0..37).map(|_| AtomicUsize::new(0)).collect();
                threads.run(hits.len(), &|task, worker| {
                    assert!(worker < count);
                    hits[task].fetch_add(round + 1, Ordering::Relaxed);
                });
                assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == round + 1));
            }
        }
    }

    #[test]
    fn chunks_are_whole_and_cover_everything() {
        let threads = Threads::new(3);
        let mut out = vec![0usize; 1003];
        threads.chunks(&mut out, 10, 25, |first, part| {
            for (i, v) in part.iter_mut().enumerate() {
                *v = first * 10 + i;
            }
        });
        assert!(out.iter().enumerate().all(|(i, v)| i == *v));
        threads.chunks(&mut Vec::<u8>::new(), 4, 1, |_, _| panic!("nothing to do"));
    }

    #[test]
    fn jobs_inside_jobs_and_beside_them_run() {
        let threads = Threads::new(2);
        let sum = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    threads.run(8, &|_, _| {
                        threads.run(4, &|task, _| {
                            sum.fetch_add(task, Ordering::Relaxed);
                        });
                    });
                });
            }
        });
        assert_eq!(sum.into_inner(), 3 * 8 * 6);
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let threads = Threads::new(2);
        for bad in [0, 63] {
            let run = std::panic::AssertUnwindSafe(|| {
                threads.run(64, &|task, _| assert!(task != bad, "task"));
            });
            assert!(std::panic::catch_unwind(run).is_err());
        }
        threads.run(8, &|_, _| {});
    }
}

//! Threads that wait for short work: a fork-join pool.
//!
//! A step of a model often takes tens of microseconds, so the pool is built for the latency of a
//! fork and a join: the calling thread works too, helpers spin for a while before they sleep, and
//! a helper that wakes too late is not waited for. `docs/architecture.md` has the comparison with
//! rayon that this is based on.

use crate::base::affinity;
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
    /// Held while a job runs; a second caller runs its job alone. How many tasks helpers have
    /// done, of all jobs.
    busy: Mutex<u64>,
}

/// The job: a function of (task, worker).
type Job = *const (dyn Fn(usize, usize) + Sync);

struct Shared {
    /// One for each thread; that of the calling thread is the first.
    desks: Vec<Desk>,
    panicked: AtomicBool,
    stop: AtomicBool,
    /// For each desk whether its thread sleeps.
    sleeping: Vec<AtomicBool>,
    threads: Mutex<Vec<Thread>>,
}

/// What lies before one thread, in a cache line of its own: a line that goes from one core to
/// another takes as long as hundreds of instructions, so a job begins with one and ends with it.
#[repr(align(128))]
struct Desk {
    /// Tasks of the thread that nobody has taken: the first, and above it the end.
    tasks: AtomicU64,
    /// What they are tasks of. Written while no task lies there or is worked on, and read by who
    /// has taken one.
    job: UnsafeCell<Option<Job>>,
    /// How many tasks the thread has done, of all jobs; the calling thread does not count.
    done: AtomicU64,
}

// SAFETY: `job` is written by the caller of `run`, who holds `busy`, while no task of an earlier
// job is left or worked on, and before tasks are put beside it; it is read by threads that have
// taken one of these, for which `run` waits. The function it points to is `Sync`.
unsafe impl Sync for Desk {}
// SAFETY: as above; the pointer is used only while the function it points to is borrowed.
unsafe impl Send for Desk {}

impl Desk {
    /// Tasks that can be counted.
    const MOST: usize = u32::MAX as usize;

    fn new() -> Desk {
        let none = UnsafeCell::new(None);
        Desk { tasks: AtomicU64::new(0), job: none, done: AtomicU64::new(0) }
    }

    /// Lays tasks before the thread.
    ///
    /// # Safety
    /// The caller holds `busy`, all tasks of earlier jobs are done, and the job stays until
    /// these are.
    unsafe fn lay(&self, job: Job, tasks: Range<usize>) {
        // SAFETY: nobody reads it, as the caller has promised.
        unsafe { *self.job.get() = Some(job) };
        self.tasks.store((tasks.end as u64) << 32 | tasks.start as u64, Ordering::Release);
    }

    /// Takes the first task, or the last for a thread that helps another.
    fn take(&self, first: bool) -> Option<usize> {
        let taken = self.tasks.fetch_update(Ordering::Acquire, Ordering::Relaxed, |tasks| {
            let (start, end) = (tasks & u64::from(u32::MAX), tasks >> 32);
            (start < end).then(|| if first { tasks + 1 } else { tasks - (1 << 32) })
        });
        taken.ok().map(|tasks| if first { tasks as u32 } else { (tasks >> 32) as u32 - 1 } as usize)
    }

    /// Whether tasks lie there.
    fn has_tasks(&self) -> bool {
        let tasks = self.tasks.load(Ordering::Relaxed);
        tasks & u64::from(u32::MAX) < tasks >> 32
    }

    /// Does a task that was taken here.
    fn work(&self, task: usize, worker: usize) {
        // SAFETY: a task was taken, so the job was written before and stays until it is done.
        if let Some(job) = unsafe { *self.job.get() } {
            // SAFETY: `run` keeps the function alive until all its tasks are done.
            unsafe { (*job)(task, worker) };
        }
    }
}

thread_local! {
    /// Set while the thread works on a job, so that a job inside a job runs on its own thread.
    static WORKING: Cell<bool> = const { Cell::new(false) };
}

impl Threads {
    /// A pool of `count` threads, the caller included; at least one.
    pub fn new(count: usize) -> Threads {
        let helpers = count.max(1) - 1;
        let shared = Arc::new(Shared {
            desks: (0..=helpers).map(|_| Desk::new()).collect(),
            panicked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            sleeping: (0..=helpers).map(|_| AtomicBool::new(false)).collect(),
            threads: Mutex::new(Vec::new()),
        });
        let caller = affinity::current();
        let spawn = |worker: usize| {
            let shared = Arc::clone(&shared);
            let name = format!("irrun-{worker}");
            std::thread::Builder::new().name(name).spawn(move || {
                affinity::leave(caller);
                shared.help(worker);
            })
        };
        // Where the system refuses a thread, the pool is smaller.
        let handles: Vec<JoinHandle<()>> = (1..=helpers).map_while(|i| spawn(i).ok()).collect();
        *shared.threads.lock().unwrap_or_else(|e| e.into_inner()) =
            handles.iter().map(|h| h.thread().clone()).collect();
        Threads { shared, handles, busy: Mutex::new(0) }
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
            _ if self.handles.is_empty() || WORKING.get() || tasks > Desk::MOST => None,
            _ => self.busy.try_lock().ok(),
        };
        let Some(mut done) = guard else {
            (0..tasks).for_each(|task| f(task, 0));
            return;
        };
        let own = self.shared.open(tasks, f, self.count().min(tasks));
        WORKING.set(true);
        let mut taken = 1;
        let work = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            f(own, 0);
            while let Some(task) = self.shared.take(0) {
                taken += 1;
                f(task, 0);
            }
        }));
        // After a panic, tasks that nobody has begun are dropped.
        while self.shared.take(0).is_some() {
            taken += 1;
        }
        WORKING.set(false);
        *done = done.wrapping_add((tasks - taken) as u64);
        self.shared.wait_for(*done);
        drop(done);
        if let Err(payload) = work {
            std::panic::resume_unwind(payload);
        }
        assert!(!self.shared.panicked.swap(false, Ordering::Relaxed), "a parallel task panicked");
    }

    /// Divides `0..len` into ranges of at least `grain` and calls `f` with each. Small work stays
    /// on the calling thread.
    #[inline]
    pub fn ranges(&self, len: usize, grain: usize, f: impl Fn(Range<usize>) + Sync) {
        self.divide(len, grain, false, &|range, _| f(range));
    }

    /// As [`Threads::ranges`], but each thread goes through the ranges of its part from the last to
    /// the first: where there is more than its cache holds, what was written last is still there.
    #[inline]
    pub fn ranges_back(&self, len: usize, grain: usize, f: impl Fn(Range<usize>) + Sync) {
        self.divide(len, grain, true, &|range, _| f(range));
    }

    /// As [`Threads::ranges`], telling the worker as [`Threads::run`] does.
    #[inline]
    pub fn ranges_with(&self, len: usize, grain: usize, f: impl Fn(Range<usize>, usize) + Sync) {
        self.divide(len, grain, false, &f);
    }

    /// The one function behind all ranges: a kernel's code is there once, whoever calls it.
    fn divide(
        &self,
        len: usize,
        grain: usize,
        back: bool,
        f: &(dyn Fn(Range<usize>, usize) + Sync),
    ) {
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
        let start = |piece: usize| len / pieces * piece + (len % pieces * piece).div_ceil(pieces);
        self.run(pieces, &|piece, worker| {
            let piece = match back {
                true => {
                    let own = share(pieces, self.count(), piece * self.count() / pieces);
                    own.start + own.end - 1 - piece
                }
                false => piece,
            };
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

/// The tasks of thread `i`. The caller begins before the others do, and has the larger part.
fn share(tasks: usize, threads: usize, i: usize) -> Range<usize> {
    let start = |i: usize| (tasks * i).div_ceil(threads);
    start(i)..start(i + 1)
}

impl Shared {
    /// Lays each thread's tasks before it and returns the caller's first, which only the caller
    /// can take.
    fn open(&self, tasks: usize, f: &(dyn Fn(usize, usize) + Sync), threads: usize) -> usize {
        // SAFETY: the lifetime is erased only until `wait_for` has seen all tasks done.
        let job: Job = unsafe { std::mem::transmute(f) };
        let share = |i: usize| share(tasks, threads, i);
        for (i, desk) in self.desks.iter().enumerate().take(threads).skip(1) {
            // SAFETY: `run` holds `busy` and has waited for all tasks of the job before.
            unsafe { desk.lay(job, share(i)) };
        }
        let own = share(0);
        if own.len() > 1 {
            // SAFETY: as above.
            unsafe { self.desks[0].lay(job, own.start + 1..own.end) };
        }
        for (i, sleeping) in self.sleeping.iter().enumerate().take(threads).skip(1) {
            // A thread that falls asleep just now is woken by the next job: nobody waits for it.
            if sleeping.load(Ordering::Relaxed) && sleeping.swap(false, Ordering::AcqRel) {
                let threads = self.threads.lock().unwrap_or_else(|e| e.into_inner());
                if let Some(thread) = threads.get(i - 1) {
                    thread.unpark();
                }
            }
        }
        own.start
    }

    /// Waits until helpers have done this many tasks in all.
    fn wait_for(&self, done: u64) {
        let mut spins = 0;
        let sum = |sum: u64, desk: &Desk| sum.wrapping_add(desk.done.load(Ordering::Acquire));
        while self.desks.iter().skip(1).fold(0, sum) != done {
            wait(&mut spins);
        }
    }

    /// Takes one of a thread's own tasks, or else one of another's.
    fn take(&self, worker: usize) -> Option<usize> {
        let take = |desk: usize| self.desks[desk].take(desk == worker);
        (worker..self.desks.len()).chain(0..worker).find_map(take)
    }

    /// The life of a helper: wait for tasks, do them, help others, say what is done.
    fn help(&self, worker: usize) {
        WORKING.set(true);
        let mut done = 0u64;
        let mut work = |desk: &Desk, own: bool| {
            let before = done;
            while let Some(task) = desk.take(own) {
                let work = std::panic::AssertUnwindSafe(|| desk.work(task, worker));
                if std::panic::catch_unwind(work).is_err() {
                    self.panicked.store(true, Ordering::Relaxed);
                }
                done = done.wrapping_add(1);
            }
            if done != before {
                self.desks[worker].done.store(done, Ordering::Release);
            }
        };
        while self.wait_for_tasks(worker) {
            for i in 0..self.desks.len() {
                work(&self.desks[(worker + i) % self.desks.len()], i == 0);
            }
        }
    }

    /// Waits until tasks lie before the thread; `false` when the pool ends.
    fn wait_for_tasks(&self, worker: usize) -> bool {
        let desk = &self.desks[worker];
        loop {
            let mut since = None;
            loop {
                for _ in 0..SPINS {
                    if desk.has_tasks() {
                        return true;
                    }
                    std::hint::spin_loop();
                }
                if self.stop.load(Ordering::Acquire) {
                    return false;
                }
                if since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                    break;
                }
            }
            self.sleeping[worker].store(true, Ordering::SeqCst);
            // Tasks laid there just before the flag was set would not wake this thread.
            if !desk.has_tasks() && !self.stop.load(Ordering::SeqCst) {
                std::thread::park();
            }
            self.sleeping[worker].store(false, Ordering::SeqCst);
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
    fn going_back_covers_everything_and_each_thread_its_part() {
        for (count, len) in [(1, 10), (2, 8), (3, 7), (4, 1000)] {
            let threads = Threads::new(count);
            let seen: Vec<AtomicUsize> = (0..len).map(|_| AtomicUsize::new(0)).collect();
            threads.ranges_back(len, 1, |range| {
                for i in range {
                    seen[i].fetch_add(1, Ordering::Relaxed);
                }
            });
            assert!(seen.into_iter().all(|n| n.into_inner() == 1), "{count} threads, {len}");
        }
        // A job inside a job runs alone, in order of its tasks.
        let order = Mutex::new(Vec::new());
        Threads::new(2).run(2, &|task, _| {
            if task == 0 {
                let inner = Threads::new(2);
                inner.ranges_back(7, 1, |range| order.lock().unwrap().push(range.start));
            }
        });
        assert_eq!(order.into_inner().unwrap(), [3, 2, 1, 0, 6, 5, 4]);
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
    fn helpers_that_sleep_are_woken_and_not_waited_for() {
        let threads = Threads::new(3);
        let helped = AtomicUsize::new(0);
        for _ in 0..20 {
            std::thread::sleep(3 * PATIENCE);
            let hits = AtomicUsize::new(0);
            threads.run(3, &|_, worker| {
                hits.fetch_add(1, Ordering::Relaxed);
                helped.fetch_add(worker.min(1), Ordering::Relaxed);
                std::thread::sleep(PATIENCE);
            });
            assert_eq!(hits.into_inner(), 3);
        }
        assert!(helped.into_inner() > 0, "no helper has ever woken");
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

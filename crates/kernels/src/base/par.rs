//! Divides short work among threads.
//!
//! A step of a model often takes tens of microseconds, so the latency of fork and join counts. The
//! calling thread works too, helpers spin for a while before they leave, and a late helper is not
//! waited for. The threads are rayon's: a helper is a job of a [`rayon::ThreadPool`], which belongs
//! to the session or to the embedding program.

use super::affinity;
use super::num::Pod;
pub(crate) use super::team::share;
use super::team::{Task, Team, Working};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

/// Stack of a thread, in bytes: unoptimised kernels have frames of some 100 KiB.
const STACK: usize = 4 << 20;

/// Threads that share the work of kernels. The thread that calls [`Threads::run`] is one of them.
pub struct Threads {
    count: usize,
    /// Built when helpers are first called; `None` if the system refuses every thread.
    pool: OnceLock<Option<Arc<ThreadPool>>>,
    /// Whether the pool belongs to the embedding program, which has other work for it too.
    is_given: bool,
    team: Arc<Team>,
    /// Locked while a job runs; a second caller runs its job alone. The value is the number of
    /// tasks that helpers have done, in all jobs.
    busy: Mutex<u64>,
}

impl Threads {
    /// `count` threads including the caller, at least one. The others are made when there is work
    /// for them.
    pub fn new(count: usize) -> Threads {
        Threads::with(count.max(1), None)
    }

    /// The threads of a pool that others use too: as many as it has, including the caller, but at
    /// most one per processor.
    pub fn on(pool: Arc<ThreadPool>) -> Threads {
        Threads::with(pool.current_num_threads().min(affinity::count()), Some(pool))
    }

    fn with(count: usize, given: Option<Arc<ThreadPool>>) -> Threads {
        let (is_given, team) = (given.is_some(), Arc::new(Team::new(count)));
        let pool = given.map_or_else(OnceLock::new, |pool| OnceLock::from(Some(pool)));
        Threads { count, pool, is_given, team, busy: Mutex::new(0) }
    }

    /// The calling thread alone.
    pub fn single() -> &'static Threads {
        static SINGLE: LazyLock<Threads> = LazyLock::new(|| Threads::new(1));
        &SINGLE
    }

    /// Number of threads, including the caller.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Makes the threads now, so that they start while the caller does something else.
    pub fn start(&self) {
        if self.count > 1 {
            self.pool();
        }
    }

    /// Gives the threads of a shared pool back until there is work again.
    pub fn release(&self) {
        if self.is_given {
            self.team.dismiss();
        }
    }

    fn pool(&self) -> Option<&ThreadPool> {
        self.pool.get_or_init(|| build(self.count - 1)).as_deref()
    }

    /// Calls `f(task, worker)` for every task, on all threads. `worker` is below [`Self::count`],
    /// and no two threads have the same one at a time. Each thread begins with its own part of the
    /// tasks, the same in every job, so that rows it has written are in its cache when the next
    /// step reads them.
    ///
    /// # Panics
    /// When `f` does.
    pub fn run(&self, tasks: usize, f: &Task<'_>) {
        let alone = tasks <= 1 || self.count == 1 || tasks > Team::MOST_TASKS || Working::is_on();
        let guard = if alone { None } else { self.busy.try_lock().ok() };
        let Some(mut done) = guard else {
            (0..tasks).for_each(|task| f(task, 0));
            return;
        };
        let own = self.team.open(tasks, f, self.count.min(tasks));
        let working = Working::begin();
        let mut taken = 1;
        // Panics are caught: the function must not return before all tasks are done, since they
        // borrow from the caller.
        let work = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            self.team.call(self.count.min(tasks), |help| match self.pool() {
                Some(pool) => pool.spawn(help),
                None => drop(help),
            });
            f(own, 0);
            while let Some(task) = self.team.take(0) {
                taken += 1;
                f(task, 0);
            }
        }));
        // After a panic, tasks that have not begun are dropped.
        while self.team.take(0).is_some() {
            taken += 1;
        }
        drop(working);
        *done = done.wrapping_add((tasks - taken) as u64);
        self.team.wait_for(*done);
        let panicked = self.team.take_panic();
        drop(done);
        if let Err(payload) = work.and(panicked) {
            std::panic::resume_unwind(payload);
        }
    }

    /// Divides `0..len` into ranges of at least `grain` and calls `f` with each. Small work stays
    /// on the calling thread.
    #[inline]
    pub fn par_ranges(&self, len: usize, grain: usize, f: impl Fn(Range<usize>) + Sync) {
        self.divide(len, grain, false, &|range, _| f(range));
    }

    /// As [`Threads::par_ranges`], but each thread goes through its ranges from the last to the
    /// first. If there is more than its cache holds, what was written last is still there.
    #[inline]
    pub fn par_ranges_rev(&self, len: usize, grain: usize, f: impl Fn(Range<usize>) + Sync) {
        self.divide(len, grain, true, &|range, _| f(range));
    }

    /// As [`Threads::par_ranges`], with the worker as in [`Threads::run`].
    #[inline]
    pub fn par_ranges_with(
        &self,
        len: usize,
        grain: usize,
        f: impl Fn(Range<usize>, usize) + Sync,
    ) {
        self.divide(len, grain, false, &f);
    }

    /// The one function behind all ranges, so that a kernel's code is compiled once for all of
    /// them.
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
        // A few pieces per thread even out threads of different speed; all threads have equally
        // many.
        let pieces = len.div_ceil(grain).next_multiple_of(self.count());
        let pieces = pieces.min(self.count() * 4).min(len);
        let start = |piece: usize| len / pieces * piece + (len % pieces * piece).div_ceil(pieces);
        self.run(pieces, &|piece, worker| {
            let piece = if back {
                let own = share(pieces, self.count(), piece * self.count() / pieces);
                own.start + own.end - 1 - piece
            } else {
                piece
            };
            f(start(piece)..start(piece + 1), worker);
        });
    }

    /// Divides `out` into runs of whole chunks, at least `grain` elements each, and calls
    /// `f(index of the first chunk, chunks)` with each run.
    #[inline]
    pub fn par_chunks_mut<T: Send>(
        &self,
        out: &mut [T],
        chunk: usize,
        grain: usize,
        f: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let chunk = chunk.max(1);
        let len = out.len();
        let shared = Slice::new(out);
        self.par_ranges(len.div_ceil(chunk), grain.div_ceil(chunk), |chunks| {
            let (start, end) = (chunks.start * chunk, (chunks.end * chunk).min(len));
            // SAFETY: the ranges are disjoint and lie within `out`, which is borrowed mutably.
            let part = unsafe { shared.part(start, end - start) };
            f(chunks.start, part);
        });
    }
}

impl Default for Threads {
    /// One thread per processor.
    fn default() -> Threads {
        Threads::new(affinity::count())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.team.dismiss();
    }
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Threads({})", self.count())
    }
}

/// A pool of `helpers` threads, or of as many as the system grants.
fn build(helpers: usize) -> Option<Arc<ThreadPool>> {
    let caller = affinity::current();
    let build = |count| {
        let named = ThreadPoolBuilder::new().thread_name(|i| format!("irrun-{}", i + 1));
        let sized = named.num_threads(count).stack_size(STACK);
        sized.start_handler(move |_| affinity::leave(caller)).build().ok()
    };
    let mut counts = std::iter::successors(Some(helpers), |n| Some(n / 2)).take_while(|n| *n > 0);
    counts.find_map(build).map(Arc::new)
}

/// A slice of which several threads write disjoint parts.
pub struct Slice<T> {
    data: *mut T,
    len: usize,
}

impl<T> Clone for Slice<T> {
    fn clone(&self) -> Slice<T> {
        *self
    }
}

impl<T> Copy for Slice<T> {}

// SAFETY: callers of `at` and `part` promise to write disjoint parts.
unsafe impl<T: Send> Sync for Slice<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Slice<T> {}

impl<T> Slice<T> {
    /// Shares a slice. The caller must not use it after the borrow ends.
    pub fn new(data: &mut [T]) -> Slice<T> {
        Slice { data: data.as_mut_ptr(), len: data.len() }
    }

    /// The address of the first element.
    pub(crate) fn start(&self) -> *mut T {
        self.data
    }

    /// Number of elements.
    pub(crate) fn count(&self) -> usize {
        self.len
    }

    /// The bytes of the elements.
    pub(crate) fn bytes(&self) -> Slice<u8>
    where
        T: Pod,
    {
        Slice { data: self.data.cast(), len: self.len * size_of::<T>() }
    }

    /// The part from `offset` on.
    ///
    /// # Safety
    /// `offset` is at most the length.
    pub(crate) unsafe fn from(&self, offset: usize) -> Slice<T> {
        debug_assert!(offset <= self.len, "{offset} of {} elements", self.len);
        // SAFETY: the caller has promised that the offset is within the slice.
        Slice { data: unsafe { self.data.add(offset) }, len: self.len.wrapping_sub(offset) }
    }

    /// The element at `offset`.
    ///
    /// # Safety
    /// `offset` is at most the length; the borrow that the slice was made from still lasts; no
    /// other thread uses what is written through the pointer.
    pub unsafe fn at(&self, offset: usize) -> *mut T {
        debug_assert!(offset <= self.len, "{offset} of {} elements", self.len);
        // SAFETY: the caller has promised that the offset is within the slice.
        unsafe { self.data.add(offset) }
    }

    /// `len` elements from `offset` on, for reading and writing.
    ///
    /// # Safety
    /// They are within the slice; the borrow that it was made from still lasts; nobody else uses
    /// them while the result lives.
    pub(crate) unsafe fn part<'s>(self, offset: usize, len: usize) -> &'s mut [T] {
        let is_within = offset <= self.len && len <= self.len - offset;
        debug_assert!(is_within, "{len} from {offset} on of {} elements", self.len);
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(offset), len) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::team::SPIN_TIMEOUT;
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

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
    #[cfg_attr(not(debug_assertions), ignore = "an assertion of development builds")]
    #[should_panic(expected = "3 from 2 on of 4 elements")]
    fn parts_beyond_a_slice_are_noticed() {
        let mut data = [0u8; 4];
        let shared = Slice::new(&mut data);
        // SAFETY: it panics before the part is made.
        unsafe { shared.part(2, 3) };
    }

    #[test]
    fn chunks_are_whole_and_cover_everything() {
        let threads = Threads::new(3);
        let mut out = vec![0usize; 1003];
        threads.par_chunks_mut(&mut out, 10, 25, |first, part| {
            for (i, v) in part.iter_mut().enumerate() {
                *v = first * 10 + i;
            }
        });
        assert!(out.iter().enumerate().all(|(i, v)| i == *v));
        threads.par_chunks_mut(&mut Vec::<u8>::new(), 4, 1, |_, _| panic!("nothing to do"));
    }

    #[test]
    fn going_back_covers_everything_and_each_thread_its_part() {
        for (count, len) in [(1, 10), (2, 8), (3, 7), (4, 1000)] {
            let threads = Threads::new(count);
            let seen: Vec<AtomicUsize> = (0..len).map(|_| AtomicUsize::new(0)).collect();
            threads.par_ranges_rev(len, 1, |range| {
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
                inner.par_ranges_rev(7, 1, |range| order.lock().unwrap().push(range.start));
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
            std::thread::sleep(3 * SPIN_TIMEOUT);
            let hits = AtomicUsize::new(0);
            threads.run(3, &|_, worker| {
                hits.fetch_add(1, Ordering::Relaxed);
                helped.fetch_add(worker.min(1), Ordering::Relaxed);
                std::thread::sleep(SPIN_TIMEOUT);
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

    #[test]
    fn one_thread_builds_no_pool_and_more_build_it_when_there_is_work() {
        let (one, two) = (Threads::new(1), Threads::new(2));
        one.run(8, &|_, _| {});
        one.start();
        two.run(1, &|_, _| {});
        assert!(one.pool.get().is_none() && two.pool.get().is_none());
        two.run(2, &|_, _| {});
        assert!(two.pool.get().is_some());
    }

    fn pool(threads: usize) -> Arc<ThreadPool> {
        Arc::new(ThreadPoolBuilder::new().num_threads(threads).build().unwrap())
    }

    /// The sum of the tasks of some jobs.
    fn sum_of_jobs(threads: &Threads) -> usize {
        let sum = AtomicUsize::new(0);
        for _ in 0..100 {
            threads.run(8, &|task, _| {
                sum.fetch_add(task, Ordering::Relaxed);
            });
        }
        threads.release();
        sum.into_inner()
    }

    #[test]
    fn a_pool_serves_several_at_the_same_time_and_its_own_threads() {
        for size in [1, 2, 3] {
            let pool = pool(size);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        assert_eq!(sum_of_jobs(&Threads::on(Arc::clone(&pool))), 100 * 28);
                    });
                }
            });
            let both = || {
                let job = || sum_of_jobs(&Threads::on(Arc::clone(&pool)));
                rayon::join(job, job)
            };
            assert_eq!(pool.install(both), (100 * 28, 100 * 28));
            // The pool is free again.
            assert_eq!(pool.broadcast(|cx| cx.index()).len(), size);
        }
    }

    #[test]
    fn a_task_may_wait_for_the_pool_that_it_runs_on() {
        let pool = pool(2);
        let threads = Threads::on(Arc::clone(&pool));
        let sum = AtomicUsize::new(0);
        threads.run(8, &|task, _| {
            let (a, b) = pool.join(|| task, || 1);
            sum.fetch_add(a + b, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 36);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn four_threads_on_one_processor_do_all_tasks() {
        let this = affinity::current().unwrap();
        let work = move || {
            affinity::stay(this);
            let threads = Threads::new(4);
            assert_eq!(Threads::default().count(), 1);
            (0..20).for_each(|_| assert_eq!(sum_of_jobs(&threads), 100 * 28));
        };
        std::thread::spawn(work).join().unwrap();
    }
}

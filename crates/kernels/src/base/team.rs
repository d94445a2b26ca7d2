//! Distributes the tasks of a job to helpers, which are jobs of a rayon pool.

use super::affinity;
use super::crowd::{Crowd, Watch};
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long a helper spins for work before it leaves. Longer than the sequential work between the
/// parallel steps of most models, since calling a helper takes as long as ten small steps.
pub(crate) const SPIN_TIMEOUT: Duration = Duration::from_millis(2);

/// How long the caller spins for helpers before it sleeps: a few times what waking it takes.
const JOIN_TIMEOUT: Duration = Duration::from_micros(200);

/// Iterations of a spinning thread between looks at the clock: some microseconds.
const SPINS: usize = 128;

/// The job: a function of (task, worker).
pub(crate) type Task<'a> = dyn Fn(usize, usize) + Sync + 'a;

/// The threads that may work on a job: the caller, and helpers that come and go.
pub(crate) struct Team {
    /// One queue per worker; the first is the caller's.
    queues: Vec<WorkerQueue>,
    /// For each worker, whether a helper has been called for it or runs as it.
    called: Vec<AtomicBool>,
    /// Whether helpers should leave.
    dismissed: AtomicBool,
    panicked: Mutex<Option<Panic>>,
    /// Whether the caller sleeps until helpers are done.
    asleep: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
    crowd: Crowd,
}

/// The payload of a task's panic.
type Panic = Box<dyn Any + Send>;

/// Per-worker queue, in a cache line of its own. A line that moves between cores takes as long as
/// hundreds of instructions; fork and join each transfer one.
#[repr(align(128))]
struct WorkerQueue {
    /// The remaining tasks: the first in the low 32 bits, the end in the high ones.
    tasks: AtomicU64,
    /// The job of these tasks. Written while no task is queued or running, and read by threads that
    /// have taken one.
    job: UnsafeCell<Option<*const Task<'static>>>,
    /// Tasks that the worker has done, in all jobs; the caller's are not counted.
    done: AtomicU64,
}

// SAFETY: `job` is written by the caller of a job. There is one caller at a time; it writes while
// no task of an earlier job is left or running, and before tasks are pushed. `job` is read by
// threads that have taken one of these tasks, and the caller waits for them. The function it points
// to is `Sync`.
unsafe impl Sync for WorkerQueue {}
// SAFETY: as above; the pointer is used only while the function it points to is borrowed.
unsafe impl Send for WorkerQueue {}

impl WorkerQueue {
    fn new() -> WorkerQueue {
        let none = UnsafeCell::new(None);
        WorkerQueue { tasks: AtomicU64::new(0), job: none, done: AtomicU64::new(0) }
    }

    /// Queues tasks.
    ///
    /// # Safety
    /// There is one caller, all tasks of earlier jobs are done, and the job lives until these are.
    unsafe fn push(&self, job: *const Task<'static>, tasks: Range<usize>) {
        debug_assert!(!self.has_tasks() && tasks.end <= Team::MOST_TASKS);
        // SAFETY: nobody reads it, by the caller's promise.
        unsafe { *self.job.get() = Some(job) };
        self.tasks.store((tasks.end as u64) << 32 | tasks.start as u64, Ordering::Release);
    }

    /// Takes the first task or, for a thread that helps another, the last.
    fn take(&self, first: bool) -> Option<usize> {
        let taken = self.tasks.fetch_update(Ordering::Acquire, Ordering::Relaxed, |tasks| {
            let (start, end) = (tasks & u64::from(u32::MAX), tasks >> 32);
            (start < end).then(|| if first { tasks + 1 } else { tasks - (1 << 32) })
        });
        taken.ok().map(|tasks| if first { tasks as u32 } else { (tasks >> 32) as u32 - 1 } as usize)
    }

    fn has_tasks(&self) -> bool {
        let tasks = self.tasks.load(Ordering::Relaxed);
        tasks & u64::from(u32::MAX) < tasks >> 32
    }

    /// Runs a task that was taken from this queue.
    fn work(&self, task: usize, worker: usize) {
        // SAFETY: a task was taken, so the job was written before, and it lives until the task is
        // done.
        if let Some(job) = unsafe { *self.job.get() } {
            // SAFETY: the caller keeps the function alive until all its tasks are done.
            unsafe { (*job)(task, worker) };
        }
    }
}

thread_local! {
    static WORKING: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as working on a job while this lives, so that a job inside a job runs on its
/// own thread.
pub(crate) struct Working {
    before: bool,
}

impl Working {
    pub(crate) fn begin() -> Working {
        Working { before: WORKING.replace(true) }
    }

    pub(crate) fn is_on() -> bool {
        WORKING.get()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        WORKING.set(self.before);
    }
}

/// The tasks of worker `i`. The caller starts before the others, and has the larger part.
pub(crate) fn share(tasks: usize, workers: usize, i: usize) -> Range<usize> {
    let start = |i: usize| (tasks * i).div_ceil(workers);
    start(i)..start(i + 1)
}

impl Team {
    /// The most tasks of a job.
    pub(crate) const MOST_TASKS: usize = u32::MAX as usize;

    pub(crate) fn new(count: usize) -> Team {
        Team {
            queues: (0..count).map(|_| WorkerQueue::new()).collect(),
            called: (0..count).map(|_| AtomicBool::new(false)).collect(),
            dismissed: AtomicBool::new(false),
            panicked: Mutex::new(None),
            asleep: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            crowd: Crowd::default(),
        }
    }

    /// Queues the tasks of each worker, and returns the caller's first task, which nobody else can
    /// take. There is one caller at a time, which waits with [`Team::wait_for`] until all tasks are
    /// done.
    pub(crate) fn open(&self, tasks: usize, f: &Task<'_>, workers: usize) -> usize {
        // SAFETY: the lifetime is erased only until `wait_for` has seen all tasks done.
        let job: *const Task<'static> = unsafe { std::mem::transmute(f) };
        for (i, queue) in self.queues.iter().enumerate().take(workers).skip(1) {
            // SAFETY: there is one caller, which has waited for all tasks of the job before.
            unsafe { queue.push(job, share(tasks, workers, i)) };
        }
        let own = share(tasks, workers, 0);
        if own.len() > 1 {
            // SAFETY: as above.
            unsafe { self.queues[0].push(job, own.start + 1..own.end) };
        }
        own.start
    }

    /// Calls helpers for workers that have none. A helper that is just leaving is called again by
    /// the next job: nobody waits for it.
    pub(crate) fn call(self: &Arc<Team>, workers: usize, spawn: impl Fn(Help)) {
        let mut may = None;
        for (i, called) in self.called.iter().enumerate().take(workers).skip(1) {
            if called.load(Ordering::Relaxed) {
                continue;
            }
            if !*may.get_or_insert_with(|| self.crowd.may_call()) {
                return;
            }
            if !called.swap(true, Ordering::AcqRel) {
                self.dismissed.store(false, Ordering::Relaxed);
                let (team, caller) = (Arc::clone(self), affinity::current());
                spawn(Box::new(move || team.help(i, caller)));
            }
        }
    }

    /// Waits until helpers have done this many tasks, in all jobs.
    pub(crate) fn wait_for(&self, done: u64) {
        let sum =
            |sum: u64, queue: &WorkerQueue| sum.wrapping_add(queue.done.load(Ordering::Acquire));
        let is_done = || self.queues.iter().skip(1).fold(0, sum) == done;
        let mut watch = Watch::default();
        loop {
            for _ in 0..SPINS {
                if is_done() {
                    return;
                }
                std::hint::spin_loop();
            }
            let seen = watch.look();
            if seen.is_crowded || seen.waited > JOIN_TIMEOUT {
                break;
            }
        }
        let mut guard = locked(&self.lock);
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while !is_done() {
            guard = self.wake.wait(guard).unwrap_or_else(|e| e.into_inner());
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Takes one of the worker's own tasks, else one of another worker's.
    pub(crate) fn take(&self, worker: usize) -> Option<usize> {
        let take = |queue: usize| self.queues[queue].take(queue == worker);
        (worker..self.queues.len()).chain(0..worker).find_map(take)
    }

    /// The payload of a helper's panic, as an error.
    pub(crate) fn take_panic(&self) -> Result<(), Panic> {
        locked(&self.panicked).take().map_or(Ok(()), Err)
    }

    /// Lets helpers leave when they have nothing to do.
    pub(crate) fn dismiss(&self) {
        self.dismissed.store(true, Ordering::Relaxed);
    }

    /// The life of a helper: wait for tasks, run them, help others, report what is done.
    fn help(&self, worker: usize, caller: Option<usize>) {
        if affinity::current() == caller {
            affinity::leave(caller);
        }
        // A task that waits for rayon may be made to run this meanwhile: the task goes first.
        let is_free = !Working::is_on();
        let working = Working::begin();
        while is_free && self.wait_for_tasks(worker) {
            for i in 0..self.queues.len() {
                let queue = &self.queues[(worker + i) % self.queues.len()];
                let mut done = 0;
                while let Some(task) = queue.take(i == 0) {
                    let work = std::panic::AssertUnwindSafe(|| queue.work(task, worker));
                    if let Err(panic) = std::panic::catch_unwind(work) {
                        *locked(&self.panicked) = Some(panic);
                    }
                    done += 1;
                }
                if done > 0 {
                    self.tell(worker, done);
                }
            }
        }
        drop(working);
        self.called[worker].store(false, Ordering::Release);
    }

    /// Reports tasks as done to the caller.
    fn tell(&self, worker: usize, tasks: u64) {
        let done = &self.queues[worker].done;
        done.store(done.load(Ordering::Relaxed).wrapping_add(tasks), Ordering::Release);
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) {
            drop(locked(&self.lock));
            self.wake.notify_one();
        }
    }

    /// Waits until there are tasks for a helper; returns `false` when it should leave.
    fn wait_for_tasks(&self, worker: usize) -> bool {
        let queue = &self.queues[worker];
        let mut watch = Watch::default();
        loop {
            for _ in 0..SPINS {
                if queue.has_tasks() {
                    return true;
                }
                std::hint::spin_loop();
            }
            if self.dismissed.load(Ordering::Relaxed) {
                return false;
            }
            let seen = watch.look();
            if seen.is_crowded {
                self.crowd.found();
                return false;
            }
            if seen.waited > SPIN_TIMEOUT {
                return false;
            }
        }
    }
}

/// The function of a helper.
pub(crate) type Help = Box<dyn FnOnce() + Send>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

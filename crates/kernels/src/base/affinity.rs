//! Where threads begin to run.
//!
//! Linux often begins a thread on the processor of the one that makes it, where it waits for some
//! milliseconds while another processor is idle: time in which many a model is done.

/// How many processors the process may use: its affinity mask and the quota of its control group
/// count.
pub(crate) fn count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The processor that the calling thread runs on, if the system tells.
pub(crate) fn current() -> Option<usize> {
    #[cfg(target_os = "linux")]
    // SAFETY: it takes nothing and touches no memory of ours.
    return usize::try_from(unsafe { libc::sched_getcpu() }).ok();
    #[cfg(not(target_os = "linux"))]
    None
}

/// Moves the calling thread away from a processor, if there is another for it. Where it may run
/// stays as it was.
pub(crate) fn leave(this: Option<usize>) {
    away_from(this, || ());
}

/// Calls `f` on another processor than `this`, if the calling thread may run on any. Where it may
/// run is as before from then on.
fn away_from<T>(this: Option<usize>, f: impl FnOnce() -> T) -> T {
    #[cfg(target_os = "linux")]
    if let Some((all, others)) = this.and_then(allowed) {
        allow(&others);
        let result = f();
        allow(&all);
        return result;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = this;
    f()
}

/// The processors that the calling thread may run on, and those of them that are not `this`; none
/// if there are no others.
#[cfg(target_os = "linux")]
fn allowed(this: usize) -> Option<(libc::cpu_set_t, libc::cpu_set_t)> {
    // SAFETY: a set of bits, of which all may be 0.
    let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set has the size that is told. The system refuses where it has more processors.
    let told = unsafe { libc::sched_getaffinity(0, size_of_val(&all), &raw mut all) } == 0;
    let in_set = usize::try_from(libc::CPU_SETSIZE).is_ok_and(|size| this < size);
    let mut others = all;
    if told && in_set {
        // SAFETY: the set has a bit for that processor.
        unsafe { libc::CPU_CLR(this, &mut others) };
    }
    // SAFETY: it reads the set.
    let count = unsafe { libc::CPU_COUNT(&others) };
    (told && in_set && count > 0).then_some((all, others))
}

/// Lets the calling thread run on some processors; where the system refuses, all stays as it is.
#[cfg(target_os = "linux")]
fn allow(processors: &libc::cpu_set_t) {
    // SAFETY: the set has the size that is told, and 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of_val(processors), processors) };
}

/// Lets the calling thread run on one processor alone.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn stay(processor: usize) {
    // SAFETY: a set of bits, of which all may be 0.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the thread runs there, so the set has a bit for it.
    unsafe { libc::CPU_SET(processor, &mut one) };
    allow(&one);
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_leaves_a_processor_and_may_come_back() {
        let may = || {
            let (all, _) = allowed(0)?;
            // SAFETY: there is a bit for each of these.
            Some((0..64).map(|i| unsafe { libc::CPU_ISSET(i, &all) }).collect::<Vec<bool>>())
        };
        let before = may();
        // With one processor there is nowhere to go.
        if before.is_some() {
            for _ in 0..10 {
                let this = current();
                assert_ne!(away_from(this, current), this);
            }
        }
        assert_eq!(may(), before);
        for no_processor in [None, Some(1 << 20), Some(usize::MAX)] {
            assert_eq!(away_from(no_processor, || 7), 7);
        }
    }
}

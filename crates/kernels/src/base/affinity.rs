//! Placement of threads on processors.
//!
//! Linux often starts a thread on the processor of its creator. There it waits for some
//! milliseconds, while another processor is idle. Many a model runs in less.

/// How many processors the process may use, by its affinity mask and the quota of its control
/// group.
pub(crate) fn count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The processor that the calling thread runs on, if known.
pub(crate) fn current() -> Option<usize> {
    #[cfg(target_os = "linux")]
    // SAFETY: it takes nothing and touches no memory of ours.
    return usize::try_from(unsafe { libc::sched_getcpu() }).ok();
    #[cfg(not(target_os = "linux"))]
    None
}

/// Moves the calling thread away from a processor, if it may use another. Its affinity mask stays
/// the same.
pub(crate) fn leave(this: Option<usize>) {
    away_from(this, || ());
}

/// Calls `f` on another processor than `this`, if the calling thread may use any. Afterwards its
/// affinity mask is as before.
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

/// The affinity mask of the calling thread, and the same without `this`; `None` if that is empty.
#[cfg(target_os = "linux")]
fn allowed(this: usize) -> Option<(libc::cpu_set_t, libc::cpu_set_t)> {
    // SAFETY: a bit set, for which all zeros are valid.
    let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set has the given size. The system returns an error if it has more processors.
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

/// Sets the affinity mask of the calling thread; does nothing if the system refuses.
#[cfg(target_os = "linux")]
fn allow(processors: &libc::cpu_set_t) {
    // SAFETY: the set has the given size, and 0 is the calling thread.
    unsafe { libc::sched_setaffinity(0, size_of_val(processors), processors) };
}

/// Pins the calling thread to one processor.
#[cfg(all(test, target_os = "linux"))]
pub(crate) fn stay(processor: usize) {
    // SAFETY: a bit set, for which all zeros are valid.
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
            // SAFETY: the set has a bit for each of these.
            Some((0..64).map(|i| unsafe { libc::CPU_ISSET(i, &all) }).collect::<Vec<bool>>())
        };
        let before = may();
        // With one processor there is no other.
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

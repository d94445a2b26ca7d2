//! Detects whether other programs want the processors that helpers spin on.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A thread that spins and yields is away for longer than this only if another thread had its
/// processor.
const GAP: Duration = Duration::from_micros(100);

/// How long no helper is called after the machine was found crowded, at first and at most; in
/// nanoseconds.
const MIN_PAUSE: u64 = 1_000_000;
const MAX_PAUSE: u64 = 32 * MIN_PAUSE;

/// After this long without trouble, in nanoseconds, a single gap is ignored: every system has
/// something to do at times.
const CALM: u64 = 10 * MIN_PAUSE;

/// The clock of one waiting thread.
#[derive(Default)]
pub(crate) struct Watch {
    /// The time of the first look and of the last.
    times: Option<(Instant, Instant)>,
}

/// The result of a look at the clock.
pub(crate) struct Seen {
    pub(crate) waited: Duration,
    /// The thread was descheduled, or gave its processor to another.
    pub(crate) is_crowded: bool,
}

impl Watch {
    /// Yields, and looks at the clock before and after.
    pub(crate) fn look(&mut self) -> Seen {
        let Some((first, last)) = self.times else {
            let now = Instant::now();
            self.times = Some((now, now));
            return Seen { waited: Duration::ZERO, is_crowded: false };
        };
        std::thread::yield_now();
        let now = Instant::now();
        self.times = Some((first, now));
        Seen { waited: now - first, is_crowded: now - last > GAP }
    }
}

/// What the helpers of a team have found. Times are in nanoseconds.
#[derive(Default)]
pub(crate) struct Crowd {
    /// The length of the last pause, and its end.
    pause: AtomicU64,
    until: AtomicU64,
}

impl Crowd {
    /// Whether a helper may be called.
    pub(crate) fn may_call(&self) -> bool {
        self.may_call_at(now())
    }

    fn may_call_at(&self, now: u64) -> bool {
        now >= self.until.load(Ordering::Relaxed)
    }

    /// A helper lost its processor. If that happens again, the next helper is called after a pause;
    /// each pause is twice as long as the one before.
    pub(crate) fn found(&self) {
        self.found_at(now());
    }

    fn found_at(&self, now: u64) {
        let calm = now.saturating_sub(self.until.load(Ordering::Relaxed)) > CALM;
        let longer = (2 * self.pause.load(Ordering::Relaxed)).clamp(MIN_PAUSE, MAX_PAUSE);
        let pause = if calm { 0 } else { longer };
        self.pause.store(pause, Ordering::Relaxed);
        self.until.store(now + pause, Ordering::Relaxed);
    }
}

/// Nanoseconds since the first call.
fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_while_helpers_lose_their_processor() {
        let crowd = Crowd::default();
        let mut now = 2 * CALM;
        assert!(crowd.may_call_at(now));
        for expected in [0, 1, 2, 4, 8, 16, 32, 32].map(|times| times * MIN_PAUSE) {
            crowd.found_at(now);
            assert_eq!(crowd.may_call_at(now), expected == 0);
            assert!(!crowd.may_call_at((now + expected).saturating_sub(1)));
            assert!(crowd.may_call_at(now + expected));
            now += expected + CALM / 2;
        }
        // After a calm time, a single gap causes no pause.
        now += CALM;
        crowd.found_at(now);
        assert!(crowd.may_call_at(now));
    }
}

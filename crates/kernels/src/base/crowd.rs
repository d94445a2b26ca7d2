//! Whether others want the processors that threads spin on.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A thread that spins and yields is gone for longer than this only when another thread had its
/// processor.
const GAP: Duration = Duration::from_micros(100);

/// For how long no helper is called once the machine was found crowded, at first and at most.
const SHORTEST: u64 = 1_000_000;
const LONGEST: u64 = 32 * SHORTEST;

/// After how long without trouble one gap means little: every system has something to do at times.
const CALM: u64 = 10 * SHORTEST;

/// What one waiting thread sees of the clock.
#[derive(Default)]
pub(crate) struct Watch {
    /// When it first looked, and when it did last.
    times: Option<(Instant, Instant)>,
}

/// What a look at the clock tells.
pub(crate) struct Seen {
    pub(crate) waited: Duration,
    /// The thread was away, or gave its processor to another.
    pub(crate) is_crowded: bool,
}

impl Watch {
    /// Lets others run, and looks at the clock before and after.
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

/// What the helpers of a team have found. Times are nanoseconds.
#[derive(Default)]
pub(crate) struct Crowd {
    /// How long the last pause was, and when it ended or ends.
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

    /// A helper could not keep its processor. Where that comes again, the next is called after a
    /// pause, each twice as long as the one before.
    pub(crate) fn found(&self) {
        self.found_at(now());
    }

    fn found_at(&self, now: u64) {
        let calm = now.saturating_sub(self.until.load(Ordering::Relaxed)) > CALM;
        let longer = (2 * self.pause.load(Ordering::Relaxed)).clamp(SHORTEST, LONGEST);
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
        for expected in [0, 1, 2, 4, 8, 16, 32, 32].map(|times| times * SHORTEST) {
            crowd.found_at(now);
            assert_eq!(crowd.may_call_at(now), expected == 0);
            assert!(!crowd.may_call_at((now + expected).saturating_sub(1)));
            assert!(crowd.may_call_at(now + expected));
            now += expected + CALM / 2;
        }
        // Once it was calm, a gap is nothing.
        now += CALM;
        crowd.found_at(now);
        assert!(crowd.may_call_at(now));
    }
}

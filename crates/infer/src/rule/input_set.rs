//! Sets of the inputs of one operation.

/// Some of the inputs of an operation. Inputs from index 63 on share one bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputSet(u64);

/// The bit of input 63 and all after it.
const LAST: usize = 63;

impl InputSet {
    /// No input.
    pub const NONE: InputSet = InputSet(0);

    /// Every input.
    pub const ALL: InputSet = InputSet(u64::MAX);

    /// One input.
    pub const fn one(input: usize) -> InputSet {
        InputSet(1 << if input < LAST { input } else { LAST })
    }

    /// Several inputs.
    pub const fn of<const N: usize>(inputs: [usize; N]) -> InputSet {
        let (mut set, mut at) = (InputSet::NONE, 0);
        while at < N {
            set = set.with(InputSet::one(inputs[at]));
            at += 1;
        }
        set
    }

    /// The inputs of `count` for which `holds` is true. Those that share a bit are in the set only
    /// if it holds for all of them.
    pub fn of_which(count: usize, holds: impl Fn(usize) -> bool) -> InputSet {
        let first = (0..count.min(LAST)).filter(|&input| holds(input)).map(InputSet::one);
        let set = first.fold(InputSet::NONE, InputSet::with);
        let rest = count > LAST && (LAST..count).all(holds);
        if rest { set.with(InputSet::one(LAST)) } else { set }
    }

    /// The union of two sets.
    pub const fn with(self, other: InputSet) -> InputSet {
        InputSet(self.0 | other.0)
    }

    /// Adds an input.
    pub fn insert(&mut self, input: usize) {
        *self = self.with(InputSet::one(input));
    }

    /// Whether an input is in the set.
    pub const fn contains(self, input: usize) -> bool {
        self.0 & InputSet::one(input).0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_in_the_set_or_not() {
        let mut set = InputSet::of([0, 3]);
        assert_eq!([0, 1, 2, 3].map(|i| set.contains(i)), [true, false, false, true]);
        set.insert(1);
        assert!(set.contains(1) && !set.contains(63) && !set.contains(usize::MAX));
        assert!(InputSet::ALL.contains(1000) && !InputSet::NONE.contains(0));
    }

    #[test]
    fn inputs_from_the_64th_on_are_one() {
        assert!(InputSet::one(200).contains(63) && InputSet::one(200).contains(64));
        assert!(!InputSet::of_which(100, |i| i != 99).contains(70));
        assert!(InputSet::of_which(100, |i| i > 50).contains(99));
        assert!(!InputSet::of_which(63, |_| true).contains(63));
    }
}

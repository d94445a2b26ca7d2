//! Decisions that bytes make.

use arbitrary::Unstructured;

/// Bytes as decisions: where they end, each decision is the first one, so that fewer bytes make a
/// simpler graph.
pub struct Choices<'a>(Unstructured<'a>);

impl<'a> Choices<'a> {
    /// Decisions of these bytes.
    pub fn new(data: &'a [u8]) -> Choices<'a> {
        Choices(Unstructured::new(data))
    }

    /// Whether all bytes are used up.
    pub fn is_done(&self) -> bool {
        self.0.is_empty()
    }

    /// One of `0..count`.
    pub fn below(&mut self, count: usize) -> usize {
        let last = count.saturating_sub(1);
        self.0.int_in_range(0..=last).unwrap_or_default()
    }

    /// Yes or no.
    pub fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    /// Yes, once in so many times.
    pub fn once_in(&mut self, count: usize) -> bool {
        self.below(count) + 1 == count
    }

    /// One of a list that is not empty.
    pub fn of<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len())]
    }

    /// Any number of 16 bits, to make noise of.
    pub fn seed(&mut self) -> u64 {
        u64::from(self.0.arbitrary::<u16>().unwrap_or_default())
    }

    /// The bytes that are left.
    pub fn rest(self) -> &'a [u8] {
        self.0.take_rest()
    }
}

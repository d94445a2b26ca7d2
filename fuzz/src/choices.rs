//! Choices made by bytes.

use arbitrary::Unstructured;

/// Bytes as choices. At the end of the bytes each choice is the first option, so fewer bytes make a
/// simpler graph.
pub struct Choices<'a>(Unstructured<'a>);

impl<'a> Choices<'a> {
    /// Choices from these bytes.
    pub fn new(data: &'a [u8]) -> Choices<'a> {
        Choices(Unstructured::new(data))
    }

    /// Whether all bytes are used.
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

    /// True about once in `count` times.
    pub fn once_in(&mut self, count: usize) -> bool {
        self.below(count) + 1 == count
    }

    /// An element of a non-empty list.
    pub fn of<T: Copy>(&mut self, options: &[T]) -> T {
        options[self.below(options.len())]
    }

    /// A 16-bit seed for noise.
    pub fn seed(&mut self) -> u64 {
        u64::from(self.0.arbitrary::<u16>().unwrap_or_default())
    }

    /// The remaining bytes.
    pub fn rest(self) -> &'a [u8] {
        self.0.take_rest()
    }
}

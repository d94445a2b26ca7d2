//! What each element of a resized axis is made of.

/// The taps of each element of a resized axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taps {
    /// The end of each element's taps; they begin at the end of the previous element's.
    pub(super) ends: Vec<usize>,
    /// Indices along the axis, and their weights.
    pub(super) taps: Vec<(usize, f64)>,
}

impl Taps {
    /// Adds an element. Without taps it is 0.
    pub fn push(&mut self, taps: impl IntoIterator<Item = (usize, f64)>) {
        self.taps.extend(taps);
        self.ends.push(self.taps.len());
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The taps of each element.
    pub(super) fn each(&self) -> impl Iterator<Item = &[(usize, f64)]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| &self.taps[*start..*end])
    }

    /// The same with two taps for each element; a single tap is split in halves. `None` if an
    /// element has another number of taps.
    pub(super) fn in_pairs(&self) -> Option<Taps> {
        let mut pairs = Taps::default();
        for taps in self.each() {
            match *taps {
                [(i, w)] => pairs.push([(i, w / 2.0), (i, w / 2.0)]),
                [a, b] => pairs.push([a, b]),
                _ => return None,
            }
        }
        Some(pairs)
    }
}

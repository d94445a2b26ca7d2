//! Strings in one byte buffer, and rows of elements.

use crate::error::TextError;

/// Strings as ranges of one byte buffer.
#[derive(Clone, Copy, Debug)]
pub struct Strings<'a> {
    begins: &'a [i32],
    ends: &'a [i32],
    chars: &'a [u8],
}

impl<'a> Strings<'a> {
    /// Strings with these begins and ends.
    ///
    /// # Errors
    /// When one is out of range of `chars`.
    pub fn new(
        begins: &'a [i32],
        ends: &'a [i32],
        chars: &'a [u8],
    ) -> Result<Strings<'a>, TextError> {
        check(begins, ends, chars.len(), "string", "bytes")?;
        Ok(Strings { begins, ends, chars })
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.begins.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.begins.is_empty()
    }

    /// The total length in bytes.
    pub fn total(&self) -> usize {
        self.iter().map(<[u8]>::len).sum()
    }

    /// The begin of a string.
    pub fn begin(&self, index: usize) -> i32 {
        self.begins[index]
    }

    /// The string at `index`, which must exist.
    pub fn get(&self, index: usize) -> &'a [u8] {
        &self.chars[self.begins[index] as usize..self.ends[index] as usize]
    }

    /// All strings in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let own = *self;
        (0..own.len()).map(move |index| own.get(index))
    }
}

/// Rows of contiguous elements: the begin and end of each.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    begins: &'a [i32],
    ends: &'a [i32],
}

impl<'a> Rows<'a> {
    /// Rows over `count` elements.
    ///
    /// # Errors
    /// When one is out of range.
    pub fn new(begins: &'a [i32], ends: &'a [i32], count: usize) -> Result<Rows<'a>, TextError> {
        check(begins, ends, count, "row", "elements")?;
        Ok(Rows { begins, ends })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.begins.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.begins.is_empty()
    }

    /// The range of the row at `index`, which must exist.
    pub fn get(&self, index: usize) -> std::ops::Range<usize> {
        self.begins[index] as usize..self.ends[index] as usize
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = std::ops::Range<usize>> + use<'a> {
        let own = *self;
        (0..own.len()).map(move |index| own.get(index))
    }
}

fn check(
    begins: &[i32],
    ends: &[i32],
    count: usize,
    what: &str,
    of: &str,
) -> Result<(), TextError> {
    if begins.len() != ends.len() {
        let message = format!("there are {} begins and {} ends", begins.len(), ends.len());
        return Err(TextError::new(message));
    }
    let lies = |(begin, end): (&i32, &i32)| {
        0 <= *begin && begin <= end && usize::try_from(*end).is_ok_and(|end| end <= count)
    };
    match begins.iter().zip(ends).position(|range| !lies(range)) {
        None => Ok(()),
        Some(at) => {
            let (begin, end) = (begins[at], ends[at]);
            let message = format!("{what} {at}, {begin}..{end}, is not in {count} {of}");
            Err(TextError::new(message))
        }
    }
}

/// Owned strings, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// The begin of each.
    pub begins: Vec<i32>,
    /// The end of each.
    pub ends: Vec<i32>,
    /// The bytes of all strings.
    pub chars: Vec<u8>,
}

impl Packed {
    /// Adds a string.
    pub fn push(&mut self, string: &[u8]) {
        self.push_with(|chars| chars.extend_from_slice(string));
    }

    /// Adds the bytes that `write` appends as a string.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.begins.push(self.chars.len() as i32);
        write(&mut self.chars);
        self.ends.push(self.chars.len() as i32);
    }

    /// The same strings, if i32 can count their bytes.
    ///
    /// # Errors
    /// When there are too many bytes.
    pub fn checked(self) -> Result<Packed, TextError> {
        match i32::try_from(self.chars.len()) {
            Ok(_) => Ok(self),
            Err(_) => Err(TextError::new("the text has more bytes than i32 can count")),
        }
    }

    /// The strings.
    pub fn strings(&self) -> Strings<'_> {
        Strings { begins: &self.begins, ends: &self.ends, chars: &self.chars }
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for Packed {
    fn from_iter<I: IntoIterator<Item = T>>(strings: I) -> Packed {
        let mut packed = Packed::default();
        strings.into_iter().for_each(|string| packed.push(string.as_ref()));
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        assert!(Strings::new(&[0, 2], &[2, 3], b"abc").is_ok());
        for (begins, ends) in [(&[0], &[4]), (&[-1], &[1]), (&[2], &[1])] {
            assert!(Strings::new(begins, ends, b"abc").is_err());
        }
        assert!(Strings::new(&[0, 1], &[1], b"abc").is_err());
        assert!(Rows::new(&[0], &[3], 2).is_err());
    }

    #[test]
    fn packing() {
        let packed: Packed = ["ab", "", "c"].into_iter().collect();
        assert_eq!(packed.begins, [0, 2, 2]);
        let strings: Vec<&[u8]> = packed.strings().iter().collect();
        assert_eq!(strings, [&b"ab"[..], b"", b"c"]);
    }
}

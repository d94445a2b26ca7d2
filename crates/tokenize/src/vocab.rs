//! Vocabularies: strings to ids, and ids to strings.

use crate::strings::{Packed, Strings};
use foldhash::{HashMap, HashMapExt};

/// Strings with an id each.
#[derive(Debug)]
pub struct Vocabulary {
    ids: HashMap<Box<[u8]>, i64>,
}

impl Vocabulary {
    /// Of equal strings, the first counts.
    pub fn new(keys: Strings<'_>, values: &[i64]) -> Vocabulary {
        let mut ids = HashMap::with_capacity(keys.len());
        for (key, id) in keys.iter().zip(values) {
            ids.entry(key.into()).or_insert(*id);
        }
        Vocabulary { ids }
    }

    /// The id of a string.
    pub fn get(&self, key: &[u8]) -> Option<i64> {
        self.ids.get(key).copied()
    }
}

/// The token of each id, without those in `skip` and those that do not exist.
pub fn decode(ids: &[i32], tokens: Strings<'_>, skip: &[i32]) -> Packed {
    let skip: foldhash::HashSet<i32> = skip.iter().copied().collect();
    let token = |id: &i32| {
        let index = usize::try_from(*id).ok().filter(|i| *i < tokens.len() && !skip.contains(id));
        index.map_or(&b""[..], |index| tokens.get(index))
    };
    ids.iter().map(token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let keys: Packed = ["a", "b", "a"].iter().collect();
        let vocabulary = Vocabulary::new(keys.strings(), &[5, 6, 7]);
        assert_eq!(vocabulary.get(b"a"), Some(5));
        assert_eq!(vocabulary.get(b"c"), None);
        let decoded = decode(&[1, -1, 0, 9, 2], keys.strings(), &[2]);
        assert_eq!(decoded.chars, b"ba");
        assert_eq!(decoded.ends, [1, 1, 2, 2, 2]);
    }
}

//! A byte trie.

/// Strings with values, to be found as prefixes of texts.
#[derive(Clone, Debug)]
pub struct Trie {
    /// The children of the root by byte; 0 for none.
    first: Box<[u32; 256]>,
    labels: Vec<u8>,
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Its children are contiguous and sorted by label.
    children: u32,
    count: u16,
    value: i32,
}

/// The value for "no value".
const NONE: i32 = -1;

/// From this many children on, nodes are searched by bisection.
const INLINE_CHILDREN: u16 = 8;

impl Trie {
    /// A trie of strings. Of equal strings the last counts; a value of -1 means none.
    pub fn new<'s>(strings: impl IntoIterator<Item = (&'s [u8], i32)>) -> Trie {
        let mut strings: Vec<(&[u8], i32)> = strings.into_iter().collect();
        strings.sort_by_key(|(string, _)| *string);
        let root = Node { children: 0, count: 0, value: NONE };
        let (mut nodes, mut labels) = (vec![root], vec![0]);
        let mut work = vec![(0, 0..strings.len(), 0)];
        while let Some((node, range, depth)) = work.pop() {
            let mut at = range.start;
            while at < range.end && strings[at].0.len() == depth {
                nodes[node].value = strings[at].1;
                at += 1;
            }
            nodes[node].children = nodes.len() as u32;
            while at < range.end {
                let label = strings[at].0[depth];
                let same = |(string, _): &(&[u8], i32)| string[depth] == label;
                let count = strings[at..range.end].iter().take_while(|s| same(s)).count();
                work.push((nodes.len(), at..at + count, depth + 1));
                nodes[node].count += 1;
                nodes.push(root);
                labels.push(label);
                at += count;
            }
        }
        let mut first = Box::new([0; 256]);
        for child in nodes[0].children..nodes[0].children + u32::from(nodes[0].count) {
            first[usize::from(labels[child as usize])] = child;
        }
        Trie { first, labels, nodes }
    }

    /// The longest string that is a prefix of `text`: length and value.
    pub fn longest(&self, text: &[u8]) -> Option<(usize, i32)> {
        self.prefixes(text).last()
    }

    /// All non-empty strings that are prefixes of `text`, shortest first.
    pub fn prefixes<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = (usize, i32)> + 't {
        let mut node = 0;
        let steps = text.iter().enumerate().map_while(move |(at, byte)| {
            node = self.child(node, *byte)?;
            Some((at + 1, self.nodes[node].value))
        });
        steps.filter(|(_, value)| *value != NONE)
    }

    /// Whether any string has this prefix.
    pub fn has_prefix(&self, prefix: &[u8]) -> bool {
        prefix.iter().try_fold(0, |node, byte| self.child(node, *byte)).is_some()
    }

    fn child(&self, node: usize, byte: u8) -> Option<usize> {
        if node == 0 {
            let child = self.first[usize::from(byte)];
            return (child != 0).then_some(child as usize);
        }
        let Node { children, count, .. } = self.nodes[node];
        let children = children as usize;
        let labels = &self.labels[children..children + usize::from(count)];
        let at = if count <= INLINE_CHILDREN {
            labels.iter().position(|label| *label == byte)?
        } else {
            labels.binary_search(&byte).ok()?
        };
        Some(children + at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes() {
        let words = ["a", "abc", "b", "abd", "abe", "a\0", "\u{e4}", ""];
        let trie = Trie::new(words.iter().zip(0..).map(|(w, i)| (w.as_bytes(), i)));
        assert_eq!(trie.prefixes(b"abcd").collect::<Vec<_>>(), [(1, 0), (3, 1)]);
        assert_eq!(trie.longest(b"a\0b"), Some((2, 5)));
        assert_eq!(trie.longest("\u{e4}x".as_bytes()), Some((2, 6)));
        assert_eq!(trie.longest(b"x"), None);
        assert_eq!(trie.longest(b""), None);
        let same = Trie::new([(&b"a"[..], 1), (b"a", 2)]);
        assert_eq!(same.longest(b"a"), Some((1, 2)));
    }
}

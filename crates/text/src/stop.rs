//! Streaming of text up to a stop string.

/// Holds text back while it may be the beginning of a stop string.
pub(crate) struct StopStrings<'s> {
    strings: Vec<&'s str>,
    held: String,
}

impl<'s> StopStrings<'s> {
    pub(crate) fn new(strings: &'s [String]) -> StopStrings<'s> {
        let strings = strings.iter().map(String::as_str).filter(|s| !s.is_empty()).collect();
        StopStrings { strings, held: String::new() }
    }

    /// Adds new text. Text that is certain goes to `out`. Returns whether a stop string was found;
    /// then nothing is held back.
    pub(crate) fn push(&mut self, text: &str, out: &mut String) -> bool {
        self.held.push_str(text);
        let found = self.strings.iter().filter_map(|stop| self.held.find(stop)).min();
        if let Some(at) = found {
            out.push_str(&self.held[..at]);
            self.held.clear();
            return true;
        }
        let certain = self.held.len() - self.begun();
        out.push_str(&self.held[..certain]);
        self.held.drain(..certain);
        false
    }

    /// The text held back, after the last token.
    pub(crate) fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Length of the longest suffix of the text that is a prefix of a stop string.
    fn begun(&self) -> usize {
        let ends = self.held.char_indices().map(|(at, _)| &self.held[at..]);
        let mut begun = ends.filter(|end| self.strings.iter().any(|stop| stop.starts_with(end)));
        begun.next().map_or(0, str::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_as_far_as_it_is_certain() {
        let strings = ["END".to_owned(), "Ä!".to_owned(), String::new()];
        let mut stops = StopStrings::new(&strings);
        let mut push = |text: &str| {
            let mut out = String::new();
            let stopped = stops.push(text, &mut out);
            (out, stopped)
        };
        assert_eq!(push("a E"), ("a ".to_owned(), false));
        assert_eq!(push("N"), (String::new(), false));
        assert_eq!(push("Eb Ä"), ("ENEb ".to_owned(), false));
        assert_eq!(push("? EN"), ("Ä? ".to_owned(), false));
        assert_eq!(push("Dx"), (String::new(), true));
        assert_eq!(stops.rest(), "");
    }

    #[test]
    fn what_is_held_is_told_at_the_end() {
        let strings = ["END".to_owned()];
        let mut stops = StopStrings::new(&strings);
        assert!(!stops.push("the EN", &mut String::new()));
        assert_eq!(stops.rest(), "EN");
    }
}

//! Small grammars of attribute values.

/// The integer at the start of `text`, after blanks; what follows is ignored, as in OpenVINO.
/// `None` if there is no integer or it does not fit 64 bits.
pub fn leading_integer(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let sign = usize::from(text.starts_with(['-', '+']));
    let rest = text.get(sign..)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    text.get(..sign + digits)?.parse().ok()
}

/// Dims such as `1,3,224,224`; `None` if one of them is not a number.
pub(crate) fn dims(text: &str) -> Option<Vec<u64>> {
    match text.trim() {
        "" => Some(Vec::new()),
        text => text.split(',').map(|dim| dim.trim().parse().ok()).collect(),
    }
}

/// Splits the `names` of a port. A comma in a name is written `\,` and nothing else is escaped, so
/// a name that ends in a backslash cannot be distinguished from one with a comma.
pub fn split_names(text: &str) -> Vec<String> {
    if !text.contains(',') {
        return if text.is_empty() { Vec::new() } else { vec![text.to_owned()] };
    }
    let mut names = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, names.last_mut()) {
            ('\\', Some(name)) if chars.peek() == Some(&',') => {
                chars.next();
                name.push(',');
            }
            (',', _) => names.push(String::new()),
            (_, Some(name)) => name.push(c),
            (_, None) => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names.dedup();
    names
}

/// Joins tensor names so that [`split_names`] reads them.
pub fn join_names(names: &[String]) -> String {
    names.iter().map(|name| name.replace(',', "\\,")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        for (text, value) in [
            ("12", Some(12)),
            (" -1 ", Some(-1)),
            ("1..10", Some(1)),
            ("x", None),
            ("", None),
            ("-", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(leading_integer(text), value, "{text}");
        }
    }

    #[test]
    fn names() {
        assert_eq!(split_names("a,b\\,c,,d\\e"), ["a", "b,c", "d\\e"]);
        assert_eq!(split_names("a\\\\,b"), ["a\\,b"]);
        // Semantics 7.6: {"q\", "tab"} is written q\,tab and is one name when read back.
        assert_eq!(split_names("q\\,tab"), ["q,tab"]);
        let names = vec!["a,b".to_owned(), " c ".to_owned()];
        assert_eq!(split_names(&join_names(&names)), names);
    }
}

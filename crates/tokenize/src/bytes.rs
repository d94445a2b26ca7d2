//! Bytes as printable characters, as in GPT-2's vocabulary, and validation of UTF-8.

use std::array;
use std::sync::LazyLock;

/// The character of each byte.
static CHARS: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut hidden = 256..;
    array::from_fn(|byte| match byte {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => char::from(byte as u8),
        _ => hidden.next().and_then(char::from_u32).unwrap_or_default(),
    })
});

/// The byte of each character up to U+017F.
static BYTES: LazyLock<[Option<u8>; 0x180]> = LazyLock::new(|| {
    let mut bytes = [None; 0x180];
    for (byte, c) in (0..=255).zip(*CHARS) {
        bytes[c as usize] = Some(byte);
    }
    bytes
});

/// Appends the characters of bytes.
pub fn to_chars(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        let c = CHARS[usize::from(*byte)];
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Appends the bytes of characters. Other characters are kept.
pub fn from_chars(chars: &[u8], out: &mut Vec<u8>) {
    let mut rest = chars;
    while let Some((&first, behind)) = rest.split_first() {
        let second =
            behind.first().filter(|b| (0xC2..=0xC5).contains(&first) && **b & 0xC0 == 0x80);
        let byte = second.and_then(|second| {
            let code = usize::from(first & 0x1F) << 6 | usize::from(second & 0x3F);
            BYTES.get(code).copied().flatten()
        });
        out.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &behind[1..] } else { behind };
    }
}

/// The byte of a token such as `<0x0A>`.
pub fn of_token(token: &[u8]) -> Option<u8> {
    let [b'<', b'0', b'x', high, low, b'>'] = token else { return None };
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'A'..=b'F' => Some(c - b'A' + 10),
        _ => None,
    };
    Some(digit(*high)? << 4 | digit(*low)?)
}

/// Appends a token, or its byte if it is a byte token.
pub fn fall_back(token: &[u8], out: &mut Vec<u8>) {
    let framed = token.len() == 6 && token.first() == Some(&b'<') && token.last() == Some(&b'>');
    let inner_end = token.iter().take(5).any(|c| *c == b'>');
    let inner_begin = token.iter().skip(1).any(|c| *c == b'<');
    match of_token(token) {
        Some(byte) => out.push(byte),
        // Other tokens of this form count as byte -1.
        None if framed && !inner_end && !inner_begin => out.push(0xFF),
        None => out.extend_from_slice(token),
    }
}

/// U+FFFD.
pub(crate) const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();

/// Appends text in which invalid UTF-8 is replaced or dropped. As in OpenVINO Tokenizers,
/// surrogates and code points above U+10FFFF are kept, and an overlong character is replaced once
/// per byte.
pub fn validate(text: &[u8], replace: bool, out: &mut Vec<u8>) {
    let valid = std::str::from_utf8(text).map_or_else(|e| e.valid_up_to(), str::len);
    out.extend_from_slice(&text[..valid]);
    let mut rest = &text[valid..];
    while let Some(&first) = rest.first() {
        let len = match first {
            0x00..=0x7F => 1,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            _ => 0,
        };
        let continued = rest.iter().skip(1).take_while(|b| **b & 0xC0 == 0x80).count();
        let complete = len > 0 && continued + 1 >= len;
        let (used, replaced) = if !complete {
            (1 + if len > 0 { continued } else { 0 }, 1)
        } else if is_shortest(&rest[..len]) {
            out.extend_from_slice(&rest[..len]);
            (len, 0)
        } else {
            (len, len)
        };
        if replace {
            (0..replaced).for_each(|_| out.extend_from_slice(REPLACEMENT));
        }
        rest = &rest[used..];
    }
}

/// Whether a character has its shortest encoding.
fn is_shortest(bytes: &[u8]) -> bool {
    match *bytes {
        [first, _] => first >= 0xC2,
        [first, second, _] => first > 0xE0 || second >= 0xA0,
        [first, second, ..] => first > 0xF0 || second >= 0x90,
        _ => true,
    }
}

/// The length of the first character, by its first byte.
pub(crate) fn char_len(text: &[u8]) -> usize {
    let len = match text.first() {
        Some(0xF0..) => 4,
        Some(0xE0..) => 3,
        Some(0xC0..) => 2,
        _ => 1,
    };
    len.min(text.len())
}

/// The first character of the text, if it is valid UTF-8.
pub(crate) fn first_char(text: &[u8]) -> Option<&[u8]> {
    let own = &text[..char_len(text)];
    std::str::from_utf8(own).is_ok().then_some(own).filter(|own| !own.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chars_and_back() {
        let all: Vec<u8> = (0..=255).collect();
        let (mut chars, mut back) = (Vec::new(), Vec::new());
        to_chars(&all, &mut chars);
        assert!(std::str::from_utf8(&chars).unwrap().starts_with("\u{100}\u{101}"));
        from_chars(&chars, &mut back);
        assert_eq!(back, all);
    }

    #[test]
    fn tokens_of_bytes() {
        let bytes = |token: &str| {
            let mut out = Vec::new();
            fall_back(token.as_bytes(), &mut out);
            out
        };
        assert_eq!(bytes("<0x0A>"), [10]);
        assert_eq!(bytes("<0xff>"), [255]);
        assert_eq!(bytes("<0x0>"), b"<0x0>");
    }

    #[test]
    fn what_is_not_utf8_is_replaced() {
        let validate = |text: &[u8], replace| {
            let mut out = Vec::new();
            validate(text, replace, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        assert_eq!(validate("aä€😀".as_bytes(), true), "aä€😀");
        assert_eq!(validate(b"a\xFFb\xE2\x82", true), "a\u{FFFD}b\u{FFFD}");
        assert_eq!(validate(b"a\xFFb\xE2\x82", false), "ab");
        assert_eq!(validate(b"\xC0\x80x", true), "\u{FFFD}\u{FFFD}x");
        assert_eq!(validate(b"\x80\xE2x", true), "\u{FFFD}\u{FFFD}x");
    }
}

//! Decoding of the text of a file.

use super::xml::XmlError;
use crate::diagnostic::{ByteOffset, Code};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use quick_xml::Reader;
use quick_xml::events::Event;

/// The file as UTF-8 without a byte order mark. If that fails, `bytes` are unchanged. A file in
/// UTF-8 is not copied.
pub(crate) fn decode(bytes: &mut Vec<u8>) -> Result<String, XmlError> {
    if let Some(text) = utf_32(bytes) {
        return Ok(text);
    }
    let (encoding, mark) = encoding(bytes)?;
    let content = bytes.get(mark..).unwrap_or_default();
    let text = if encoding != UTF_8 {
        let text = encoding.decode_without_bom_handling_and_without_replacement(content);
        let broken = || format!("the file is not {}, as it says it is", encoding.name());
        text.ok_or_else(|| XmlError::new(Code::Syntax, ByteOffset(0), broken()))?.into_owned()
    } else if mark == 0 {
        String::from_utf8(std::mem::take(bytes)).map_err(|error| {
            let fatal = not_utf8(error.utf8_error());
            *bytes = error.into_bytes();
            fatal
        })?
    } else {
        std::str::from_utf8(content).map_err(not_utf8)?.to_owned()
    };
    let message = match text.trim_ascii_start().chars().next() {
        Some('<') => return Ok(text),
        Some(_) => "this is not XML; give the model's .xml, not its .bin or another format",
        None => "the file is empty; fetch or write it again",
    };
    Err(XmlError::new(Code::NotIr, ByteOffset(0), message))
}

fn not_utf8(error: std::str::Utf8Error) -> XmlError {
    let at = error.valid_up_to();
    let message = format!("byte {at} is not UTF-8; save the file as UTF-8");
    XmlError::new(Code::Syntax, ByteOffset(at), message)
}

/// The encoding, and the length of its byte order mark.
fn encoding(bytes: &[u8]) -> Result<(&'static Encoding, usize), XmlError> {
    if let Some(marked) = Encoding::for_bom(bytes) {
        return Ok(marked);
    }
    match bytes {
        [b'<', 0, ..] => Ok((UTF_16LE, 0)),
        [0, b'<', ..] => Ok((UTF_16BE, 0)),
        _ => Ok((declared(bytes)?.unwrap_or(UTF_8), 0)),
    }
}

/// Text in UTF-32, recognised by its mark or its first `<`. It is not one of the web's encodings.
fn utf_32(bytes: &[u8]) -> Option<String> {
    let unit = match bytes {
        [0xff, 0xfe, 0, 0, ..] | [b'<', 0, 0, 0, ..] => u32::from_le_bytes,
        [0, 0, 0xfe, 0xff, ..] | [0, 0, 0, b'<', ..] => u32::from_be_bytes,
        _ => return None,
    };
    let char_of = |word: &[u8]| char::from_u32(unit(word.try_into().ok()?));
    let text = bytes.chunks(4).map(char_of).collect::<Option<String>>()?;
    Some(text.trim_start_matches('\u{feff}').to_owned())
}

/// The encoding in `<?xml encoding="…"?>`. Since it can be read here, it is not UTF-16. An unknown
/// name counts as UTF-8, as in OpenVINO.
fn declared(bytes: &[u8]) -> Result<Option<&'static Encoding>, XmlError> {
    if !bytes.starts_with(b"<?xml") {
        return Ok(None);
    }
    let end = bytes.iter().position(|b| *b == b'>').map_or(bytes.len(), |i| i + 1);
    let head = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
    let Ok(Event::Decl(declaration)) = Reader::from_str(&head).read_event() else {
        return Ok(None);
    };
    let Some(Ok(label)) = declaration.encoding() else { return Ok(None) };
    let found = Encoding::for_label(label.as_bytes());
    if found.is_none() && std::str::from_utf8(bytes).is_ok() {
        return Ok(None);
    }
    let encoding = found.ok_or_else(|| {
        let message = format!("the encoding \"{label}\" is not known; save the file as UTF-8");
        XmlError::new(Code::Syntax, ByteOffset(0), message)
    })?;
    Ok(Some(encoding).filter(|e| ![UTF_16BE, UTF_16LE].contains(e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str, unit: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(unit).collect()
    }

    #[test]
    fn encodings() {
        let text = "<?xml version=\"1.0\" encoding=\"utf-16\"?><net name=\"é😀\"/>";
        for bytes in [
            text.as_bytes().to_vec(),
            format!("\u{feff}{text}").into_bytes(),
            utf16(text, u16::to_le_bytes),
            utf16(text, u16::to_be_bytes),
            utf16(&format!("\u{feff}{text}"), u16::to_le_bytes),
            utf16(&format!("\u{feff}{text}"), u16::to_be_bytes),
            text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
            format!("\u{feff}{text}").chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
            text.replace("utf-16", "klingon").into_bytes(),
        ] {
            let text = match std::str::from_utf8(&bytes) {
                Ok(own) if own.contains("klingon") => own,
                _ => text,
            };
            assert_eq!(decode(&mut bytes.clone()).ok().as_deref(), Some(text));
        }
        let latin = b"<?xml version='1.0' encoding='ISO-8859-1'?><net name='\xe9'/>";
        assert!(decode(&mut latin.to_vec()).is_ok_and(|text| text.ends_with("<net name='é'/>")));
    }

    #[test]
    fn what_is_not_text() {
        for (bytes, message) in [
            (&b"\xff\xfe<\0n\0\0\xd8"[..], "not UTF-16LE"),
            (b"<net \xff", "byte 5 is not UTF-8"),
            (b"<?xml version='1.0' encoding='klingon'?><n a='\xff'/>", "\"klingon\" is not known"),
            (b"\xff\xfe", "the file is empty"),
            (b" \n", "the file is empty"),
            (b"\x01\x02", "not XML"),
        ] {
            let Err(XmlError(diagnostic)) = decode(&mut bytes.to_vec()) else {
                panic!("{message}")
            };
            assert!(diagnostic.message.contains(message), "{diagnostic:?}");
        }
    }
}

//! Bytes as one line of text and back: the escaping of TSV fields and of raw keys.
//!
//! `\\`, `\t`, `\n`, `\r` and `\xNN`; everything else is written as it is. Control characters and
//! bytes that are no UTF-8 are written as `\xNN`, so every byte string has a printable form and
//! comes back exactly.

use std::fmt::Write as _;

/// `bytes` as text without tabs, line ends, control characters and invalid UTF-8.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '\t' => text.push_str("\\t"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                control if control.is_control() => {
                    let mut utf8 = [0; 4];
                    push_hex(&mut text, control.encode_utf8(&mut utf8).as_bytes());
                }
                plain => text.push(plain),
            }
        }
        push_hex(&mut text, chunk.invalid());
    }
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// The bytes that `text` stands for.
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        bytes.extend_from_slice(&rest[..at]);
        let (byte, length) = match rest.get(at + 1) {
            Some(b'\\') => (b'\\', 2),
            Some(b't') => (b'\t', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b'x') => {
                let digits = rest.get(at + 2..at + 4).and_then(|digits| from_hex(digits).ok());
                match digits.as_deref() {
                    Some(&[byte]) => (byte, 4),
                    _ => return Err("`\\x` wants two hexadecimal digits".into()),
                }
            }
            _ => return Err("unknown escape: write `\\\\` for a backslash".into()),
        };
        bytes.push(byte);
        rest = &rest[at + length..];
    }
    bytes.extend_from_slice(rest);
    Ok(bytes)
}

/// `bytes` as lower-case hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes that hexadecimal digits stand for.
pub(crate) fn from_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|nibble| u8::try_from(nibble).ok());
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("an odd number of hexadecimal digits".into());
    }
    pairs
        .iter()
        .map(|&[high, low]| Some(nibble(high)? << 4 | nibble(low)?))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("{:?} is not hexadecimal", String::from_utf8_lossy(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_come_back_from_their_escaped_form(bytes: Vec<u8>) {
            let text = escape(&bytes);
            prop_assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
            prop_assert_eq!(unescape(text.as_bytes()).unwrap(), bytes.clone());
            prop_assert_eq!(from_hex(to_hex(&bytes).as_bytes()).unwrap(), bytes);
        }

        #[test]
        fn any_text_unescapes_or_is_refused(text: Vec<u8>) {
            let _ = unescape(&text);
            let _ = from_hex(&text);
        }
    }

    #[test]
    fn escapes_are_short_where_they_can_be() {
        assert_eq!(escape(b"a\tb\\\n\r\0\xff\xc3\xa9"), "a\\tb\\\\\\n\\r\\x00\\xff\u{e9}");
        for wrong in ["\\", "\\q", "\\x", "\\x0", "\\xg0", "\\x+1"] {
            assert!(unescape(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(from_hex(b"abc").is_err());
    }
}

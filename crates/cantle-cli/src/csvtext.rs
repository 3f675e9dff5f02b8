//! One CSV record as bytes: key text, and values that are kept as a record of their columns.
//!
//! An empty field without quotes is a null; `""` is the empty text. A record is written in one way
//! only (a field is quoted when it holds a comma, a quote or a line end, or is the empty text), so
//! that a record that was split and written again has the same bytes.

use std::borrow::Cow;

/// A field of a record; none for a null.
pub(crate) type Field = Option<Vec<u8>>;

/// Anything that can be written as a field.
pub(crate) trait AsField {
    /// The field's bytes; none for a null.
    fn as_field(&self) -> Option<Cow<'_, [u8]>>;
}

impl AsField for Field {
    fn as_field(&self) -> Option<Cow<'_, [u8]>> {
        self.as_deref().map(Cow::Borrowed)
    }
}

impl AsField for Option<&[u8]> {
    fn as_field(&self) -> Option<Cow<'_, [u8]>> {
        self.map(Cow::Borrowed)
    }
}

impl AsField for String {
    fn as_field(&self) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(self.as_bytes()))
    }
}

impl AsField for &str {
    fn as_field(&self) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(self.as_bytes()))
    }
}

/// Appends `field` to `record`, quoted if it must be.
fn push_field(record: &mut Vec<u8>, field: &[u8]) {
    let quote = field.is_empty() || field.iter().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n'));
    if !quote {
        record.extend_from_slice(field);
        return;
    }
    record.push(b'"');
    for &byte in field {
        if byte == b'"' {
            record.push(b'"');
        }
        record.push(byte);
    }
    record.push(b'"');
}

/// The record of `fields`, without a line end.
pub(crate) fn record<F: AsField>(fields: &[F]) -> Vec<u8> {
    let mut record = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            record.push(b',');
        }
        if let Some(field) = field.as_field() {
            push_field(&mut record, &field);
        }
    }
    record
}

/// The fields of a record; the empty record has one null.
pub(crate) fn split(record: &[u8]) -> Result<Vec<Field>, String> {
    let mut fields = Vec::new();
    let mut rest = record;
    loop {
        let mut field = Vec::new();
        let end = if let Some(quoted) = rest.strip_prefix(b"\"") {
            let end = 1 + unquote(quoted, &mut field)?;
            fields.push(Some(field));
            end
        } else {
            let end = rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len());
            field.extend_from_slice(&rest[..end]);
            fields.push(Some(field).filter(|field| !field.is_empty()));
            end
        };
        match rest.get(end) {
            None => return Ok(fields),
            Some(b',') => rest = &rest[end + 1..],
            Some(_) => return Err("a quoted field goes on after its closing quote".into()),
        }
    }
}

/// Reads a quoted field after its opening quote; returns the length up to and with the closing one.
fn unquote(quoted: &[u8], field: &mut Vec<u8>) -> Result<usize, String> {
    let mut at = 0;
    loop {
        match (quoted.get(at), quoted.get(at + 1)) {
            (Some(b'"'), Some(b'"')) => {
                field.push(b'"');
                at += 2;
            }
            (Some(b'"'), _) => return Ok(at + 1),
            (Some(&byte), _) => {
                field.push(byte);
                at += 1;
            }
            (None, _) => return Err("a quoted field has no closing quote".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_come_back_from_their_record(
            fields in prop::collection::vec(prop::option::of(prop::collection::vec(prop_oneof![
                Just(b','), Just(b'"'), Just(b'\n'), Just(b'\r'), any::<u8>()], 0..6)), 1..5)
        ) {
            let text = record(&fields);
            prop_assert_eq!(split(&text).unwrap(), fields.clone());
            // Another reader of CSV files reads the same, but knows no nulls. It passes over empty
            // lines.
            prop_assume!(!text.is_empty());
            let file = [b"header\n".as_slice(), &text, b"\n"].concat();
            let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file.as_slice());
            let read = reader.byte_records().next().unwrap().unwrap();
            let texts: Vec<_> = fields.into_iter().map(Option::unwrap_or_default).collect();
            prop_assert_eq!(read.iter().map(<[u8]>::to_vec).collect::<Vec<_>>(), texts);
        }
    }

    #[test]
    fn quotes_that_do_not_close_are_refused() {
        assert!(split(b"\"a").is_err());
        assert!(split(b"\"a\"b").is_err());
    }

    #[test]
    fn a_null_is_not_the_empty_text() {
        assert_eq!(split(b"").unwrap(), [None]);
        assert_eq!(split(b"\"\",,a").unwrap(), [Some(vec![]), None, Some(b"a".to_vec())]);
        assert_eq!(record(&[""]), b"\"\"");
        assert_eq!(record(&[Some(vec![]), None, Some(b"a".to_vec())]), b"\"\",,a");
    }
}

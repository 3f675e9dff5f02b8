//! One CSV record as bytes: key text, and values that are kept as a record of their columns.
//!
//! A record is written in one way only (a field is quoted when it holds a comma, a quote or a line end, or
//! when it is the only one and empty), so that a record that was split and written again has the same bytes.

/// Appends `field` to `record`, quoted if it must be. `alone` says that the record has no other field.
fn push_field(record: &mut Vec<u8>, field: &[u8], alone: bool) {
    let quote =
        (alone && field.is_empty()) || field.iter().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n'));
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

/// Appends the record of `fields`, without a line end.
pub(crate) fn push_record<F: AsRef<[u8]>>(record: &mut Vec<u8>, fields: &[F]) {
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            record.push(b',');
        }
        push_field(record, field.as_ref(), fields.len() == 1);
    }
}

/// The record of `fields`, without a line end.
pub(crate) fn record<F: AsRef<[u8]>>(fields: &[F]) -> Vec<u8> {
    let mut record = Vec::new();
    push_record(&mut record, fields);
    record
}

/// The fields of a record; the empty record has one empty field.
pub(crate) fn split(record: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut fields = Vec::new();
    let mut rest = record;
    loop {
        let mut field = Vec::new();
        let end = if let Some(quoted) = rest.strip_prefix(b"\"") {
            1 + unquote(quoted, &mut field)?
        } else {
            let end = rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len());
            field.extend_from_slice(&rest[..end]);
            end
        };
        fields.push(field);
        match rest.get(end) {
            None => return Ok(fields),
            Some(b',') => rest = &rest[end + 1..],
            Some(_) => return Err("a quoted field goes on after its closing quote".into()),
        }
    }
}

/// Reads a quoted field behind its opening quote; returns the length up to and with the closing one.
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
            fields in prop::collection::vec(prop::collection::vec(prop_oneof![
                Just(b','), Just(b'"'), Just(b'\n'), Just(b'\r'), any::<u8>()], 0..6), 1..5)
        ) {
            let text = record(&fields);
            prop_assert_eq!(split(&text).unwrap(), fields.clone());
            // A reader of CSV files reads the same.
            let file = [b"header\n".as_slice(), &text, b"\n"].concat();
            let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file.as_slice());
            let read = reader.byte_records().next().unwrap().unwrap();
            prop_assert_eq!(read.iter().map(<[u8]>::to_vec).collect::<Vec<_>>(), fields);
        }
    }

    #[test]
    fn quotes_that_do_not_close_are_refused() {
        assert!(split(b"\"a").is_err());
        assert!(split(b"\"a\"b").is_err());
        assert_eq!(split(b"").unwrap(), [b""]);
        assert_eq!(record(&[""]), b"\"\"");
    }
}

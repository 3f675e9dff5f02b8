//! A record of a write-ahead log: one batch of writes.
//!
//! ```text
//!   batch    sequence of the first write (8) │ number of writes (4) │ writes
//!   write    1 │ key │ value      0 │ key: deleted      each string behind its length
//! ```

use super::coding::Decoder;
use super::entry::{DELETION, Entry, VALUE, unknown_type};

/// The writes of a batch, all or none.
pub(crate) fn decode_batch(record: &[u8]) -> Result<Vec<Entry>, String> {
    let mut decoder = Decoder::new(record);
    let (Some(first), Some(count)) = (decoder.fixed64(), decoder.fixed32()) else {
        return Err(format!("a batch of {} bytes lacks its header", record.len()));
    };
    let mut entries = Vec::new();
    while !decoder.is_empty() {
        let sequence =
            first.checked_add(entries.len() as u64).ok_or("a batch's sequence number is too large")?;
        let cut = || "a batch ends in the middle of a write".to_owned();
        let value = match decoder.byte().ok_or_else(cut)? {
            kind @ (VALUE | DELETION) => {
                let key = decoder.prefixed().ok_or_else(cut)?.to_vec();
                let value =
                    if kind == VALUE { Some(decoder.prefixed().ok_or_else(cut)?.to_vec()) } else { None };
                Entry { key, sequence, value }
            }
            other => return Err(unknown_type(other)),
        };
        entries.push(value);
    }
    if entries.len() != count as usize {
        return Err(format!("a batch of {count} writes has {}", entries.len()));
    }
    Ok(entries)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::leveldb::coding::tests::put_prefixed;
    use proptest::prelude::*;

    pub(crate) fn encode_batch(first: u64, writes: &[(Vec<u8>, Option<Vec<u8>>)]) -> Vec<u8> {
        let mut batch = first.to_le_bytes().to_vec();
        batch.extend_from_slice(&(writes.len() as u32).to_le_bytes());
        for (key, value) in writes {
            batch.push(if value.is_some() { VALUE } else { DELETION });
            put_prefixed(&mut batch, key);
            if let Some(value) = value {
                put_prefixed(&mut batch, value);
            }
        }
        batch
    }

    proptest! {
        #[test]
        fn writes_come_back_all_or_none(
            first in 0..1u64 << 56, writes: Vec<(Vec<u8>, Option<Vec<u8>>)>, cut: prop::sample::Index
        ) {
            let batch = encode_batch(first, &writes);
            let entries = decode_batch(&batch).unwrap();
            let expected: Vec<Entry> = writes.iter().enumerate().map(|(index, (key, value))| Entry {
                key: key.clone(), sequence: first + index as u64, value: value.clone()
            }).collect();
            prop_assert_eq!(entries, expected);
            prop_assert!(decode_batch(&batch[..cut.index(batch.len())]).is_err());
        }

        #[test]
        fn any_bytes_are_a_batch_or_refused(bytes: Vec<u8>) {
            let _ = decode_batch(&bytes);
        }
    }

    #[test]
    fn types_of_others_are_refused() {
        let mut batch = encode_batch(1, &[(b"key".to_vec(), None)]);
        batch[12] = 2;
        assert!(decode_batch(&batch).unwrap_err().contains("type 2"));
    }
}

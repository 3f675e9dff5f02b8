//! A block of a table: entries in order of key, each without what it has in common with the one
//! before.
//!
//! ```text
//!   block    entries │ places of restarts (4 each) │ their number (4)
//!   entry    bytes shared with the key before │ other bytes of the key │ bytes of the value │ key's other bytes │ value
//! ```
//!
//! Restarts, entries that share nothing, are for searching; who reads a block from its beginning
//! needs only to know where entries end.

use super::coding::Decoder;

/// Key and value.
pub(crate) type Pair<'a> = (&'a [u8], &'a [u8]);

/// The entries of one block.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    /// The end of the entries.
    end: usize,
    at: usize,
    key: Vec<u8>,
}

impl Block {
    pub fn new(bytes: Vec<u8>) -> Result<Self, String> {
        let Some((rest, restarts)) = bytes.split_last_chunk::<4>() else {
            return Err(format!("a block of {} bytes has no end", bytes.len()));
        };
        let restarts = u32::from_le_bytes(*restarts) as usize;
        let end = restarts.checked_mul(4).and_then(|restarts| rest.len().checked_sub(restarts));
        let Some(end) = end else {
            return Err(format!("a block of {} bytes has no room for {restarts} restarts", bytes.len()));
        };
        Ok(Self { end, at: 0, key: Vec::new(), bytes })
    }

    /// The next key and value.
    pub fn next(&mut self) -> Result<Option<Pair<'_>>, String> {
        let entries = &self.bytes[self.at..self.end];
        if entries.is_empty() {
            return Ok(None);
        }
        let mut decoder = Decoder::new(entries);
        let mut length = || decoder.varint32().map(|length| length as usize);
        let (Some(shared), Some(others), Some(value)) = (length(), length(), length()) else {
            return Err("an entry's lengths cannot be read".into());
        };
        let (Some(others), Some(value)) = (decoder.bytes(others), decoder.bytes(value)) else {
            return Err("an entry goes on behind its block".into());
        };
        if shared > self.key.len() {
            return Err(format!("an entry shares {shared} bytes with a key of {}", self.key.len()));
        }
        self.at = self.end - decoder.left();
        self.key.truncate(shared);
        self.key.extend_from_slice(others);
        Ok(Some((&self.key, value)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::leveldb::coding::tests::put_varint;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A block of these entries with a restart every `interval` of them.
    pub(crate) fn write_block(entries: &[(Vec<u8>, Vec<u8>)], interval: usize) -> Vec<u8> {
        let (mut block, mut restarts) = (Vec::new(), vec![0u32]);
        let mut before: &[u8] = b"";
        for (index, (key, value)) in entries.iter().enumerate() {
            if index > 0 && index % interval == 0 {
                restarts.push(block.len() as u32);
                before = b"";
            }
            let shared = before.iter().zip(key).take_while(|(a, b)| a == b).count();
            for length in [shared, key.len() - shared, value.len()] {
                put_varint(&mut block, length as u64);
            }
            block.extend_from_slice(&key[shared..]);
            block.extend_from_slice(value);
            before = key;
        }
        for restart in &restarts {
            block.extend_from_slice(&restart.to_le_bytes());
        }
        block.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
        block
    }

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    fn read_block(bytes: &[u8]) -> Result<Pairs, String> {
        let mut block = Block::new(bytes.to_vec())?;
        let mut entries = Vec::new();
        while let Some((key, value)) = block.next()? {
            entries.push((key.to_vec(), value.to_vec()));
        }
        Ok(entries)
    }

    proptest! {
        #[test]
        fn entries_come_back(entries: BTreeMap<Vec<u8>, Vec<u8>>, interval in 1..20usize) {
            let entries: Vec<_> = entries.into_iter().collect();
            prop_assert_eq!(read_block(&write_block(&entries, interval)).unwrap(), entries);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = read_block(&bytes);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(Block::new(vec![1, 2, 3]).unwrap_err().contains("no end"));
        assert!(Block::new(vec![1, 0, 0, 0]).unwrap_err().contains("no room"));
        assert!(read_block(&[5, 1, 0, b'a', 0, 0, 0, 0]).unwrap_err().contains("shares 5"));
        assert!(read_block(&[0, 9, 0, b'a', 0, 0, 0, 0]).unwrap_err().contains("behind its block"));
        assert!(read_block(&[0x80, 0, 0, 0, 0]).unwrap_err().contains("lengths"));
    }
}

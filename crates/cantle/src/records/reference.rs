//! References to values that stand in the log to which they were written.

use crate::format::codec::{Decoder, Malformed, put_varint};
use crate::types::entry::Kind;

/// The record of a put in a log. An entry of the kind [`Kind::PutApart`] has it in the place of its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The number of the log.
    pub file: u64,
    /// The place of the record.
    pub offset: u64,
    /// Length of the record in bytes: a little more than its key and its value.
    pub len: u32,
}

impl Reference {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16);
        put_varint(&mut out, self.file);
        put_varint(&mut out, self.offset);
        put_varint(&mut out, self.len.into());
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(bytes);
        let (file, offset) = (decoder.number()?, decoder.size()?);
        let len = u32::try_from(decoder.varint()?).map_err(|_| Malformed("refers to a record over 4 GiB"))?;
        decoder.finish()?;
        Ok(Self { file, offset, len })
    }
}

/// The bytes of an entry that count as the user's: key and value of a put, the record where the value stands
/// apart, and 0 of a delete.
pub fn user_bytes(key: &[u8], kind: Kind, value: &[u8]) -> Result<u64, Malformed> {
    match kind {
        Kind::Put => Ok((key.len() + value.len()) as u64),
        Kind::PutApart => Reference::decode(value).map(|reference| reference.len.into()),
        Kind::Delete | Kind::DeleteRange => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_round_trip_and_others_are_refused() {
        for reference in [
            Reference { file: 1, offset: 64, len: 0 },
            Reference { file: 1 << 40, offset: 1 << 40, len: u32::MAX },
        ] {
            let bytes = reference.encode();
            assert_eq!(Reference::decode(&bytes), Ok(reference));
            assert_eq!(user_bytes(b"key", Kind::PutApart, &bytes), Ok(reference.len.into()));
            for len in 0..bytes.len() {
                assert!(Reference::decode(&bytes[..len]).is_err(), "{len}");
            }
            assert!(Reference::decode(&[&bytes[..], &[0]].concat()).is_err());
        }
        let mut long = Vec::new();
        [7, 64, 1 << 32].into_iter().for_each(|number| put_varint(&mut long, number));
        assert!(Reference::decode(&long).is_err());
        assert!(user_bytes(b"key", Kind::PutApart, b"").is_err());
        assert_eq!(user_bytes(b"key", Kind::Put, b"value"), Ok(8));
        assert_eq!(user_bytes(b"key", Kind::Delete, b""), Ok(0));
    }
}

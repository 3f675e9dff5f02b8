//! The bytes of a journal record.

use crate::format::codec::{Decoder, Malformed, put_bytes, put_varint};
use crate::types::entry::Kind;

/// One operation of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalOp {
    pub keyspace: u32,
    pub kind: Kind,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalRecord {
    /// The batch with this number is whole.
    Commit { batch: u64, version: u64 },
    /// A whole write; it also commits its batch, if it has one (not 0).
    Write {
        batch: u64,
        version: u64,
        /// The bytes of this file that were durable when the record was written: damage before that is corruption.
        durable_bytes: u64,
        ops: Vec<JournalOp>,
    },
}

const COMMIT: u8 = 1;
const WRITE: u8 = 2;

impl JournalRecord {
    pub fn version(&self) -> u64 {
        match self {
            Self::Commit { version, .. } | Self::Write { version, .. } => *version,
        }
    }

    pub fn batch(&self) -> u64 {
        match self {
            Self::Commit { batch, .. } | Self::Write { batch, .. } => *batch,
        }
    }

    /// The keyspaces that the record writes to.
    pub fn keyspaces(&self) -> impl Iterator<Item = u32> {
        let ops = match self {
            Self::Commit { .. } => &[][..],
            Self::Write { ops, .. } => ops,
        };
        ops.iter().map(|op| op.keyspace)
    }

    pub fn encode_commit(out: &mut Vec<u8>, batch: u64, version: u64) {
        out.push(COMMIT);
        put_varint(out, batch);
        put_varint(out, version);
    }

    /// Number of bytes of the file that were durable when a write was recorded, from the head of
    /// its record. `None` for a commit, which does not have it.
    pub fn durable_bytes(head: &[u8]) -> Option<u64> {
        let mut decoder = Decoder::new(head);
        let tag = decoder.u8().ok()?;
        let (_batch, _version) = (decoder.varint().ok()?, decoder.varint().ok()?);
        decoder.varint().ok().filter(|_| tag == WRITE)
    }

    /// True if a record of a journal may begin so: the `MayBegin` of journals.
    pub fn may_begin(beginning: &[u8], _: u64) -> bool {
        matches!(beginning.first(), Some(&COMMIT | &WRITE))
    }

    /// Encodes a write without making a record of it first. Returns the length of the head.
    pub fn encode_write<'a>(
        out: &mut Vec<u8>,
        batch: u64,
        version: u64,
        durable_bytes: u64,
        ops: impl ExactSizeIterator<Item = (u32, Kind, &'a [u8], &'a [u8])>,
    ) -> usize {
        let start = out.len();
        out.push(WRITE);
        put_varint(out, batch);
        put_varint(out, version);
        put_varint(out, durable_bytes);
        put_varint(out, ops.len() as u64);
        let head_bytes = out.len() - start;
        for (keyspace, kind, key, value) in ops {
            put_varint(out, u64::from(keyspace));
            out.push(kind as u8);
            put_bytes(out, key);
            put_bytes(out, value);
        }
        head_bytes
    }

    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(payload);
        let tag = decoder.u8()?;
        let batch = decoder.number()?;
        let version = decoder.number()?;
        let record = match tag {
            COMMIT => Self::Commit { batch, version },
            WRITE => {
                let durable_bytes = decoder.size()?;
                let mut ops = Vec::new();
                for _ in 0..decoder.varint()? {
                    ops.push(JournalOp {
                        keyspace: u32::try_from(decoder.varint()?)
                            .map_err(|_| Malformed("a number exceeds 32 bits"))?,
                        kind: Kind::from_u8(decoder.u8()?)
                            .ok_or(Malformed("an operation is of an unknown kind"))?,
                        key: decoder.bytes()?.to_vec(),
                        value: decoder.bytes()?.to_vec(),
                    });
                }
                Self::Write { batch, version, durable_bytes, ops }
            }
            _ => return Err(Malformed("a journal record has an unknown tag")),
        };
        decoder.finish()?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::bounds::encode_bounds;
    use crate::format::documented::{assert_documented, example_header};
    use crate::format::header::FileKind;
    use crate::records::encode_record;
    use crate::types::bounds::Bounds;

    #[test]
    fn the_documented_journal_is_what_is_written() {
        let header = example_header(FileKind::Journal, 0, 9, 0);
        let mut file = header.encode().to_vec();
        let append = |file: &mut Vec<u8>, payload: &[u8]| {
            encode_record(&header, file.len() as u64, (0, payload.len()), file, |out| {
                out.extend_from_slice(payload)
            });
        };
        let mut commit = Vec::new();
        JournalRecord::encode_commit(&mut commit, 7, 1301);
        append(&mut file, &commit);
        let durable_bytes = file.len() as u64;
        let range = encode_bounds(&Bounds::of(&("app/5"..)));
        let ops = [(1, Kind::Put, &b"app/1"[..], &b"one"[..]), (3, Kind::DeleteRange, b"", &range)];
        let mut write = Vec::new();
        JournalRecord::encode_write(&mut write, 8, 1302, durable_bytes, ops.into_iter());
        append(&mut file, &write);
        assert_documented(include_str!("../../docs/format/journal.md"), &file, 0);
    }

    #[test]
    fn records_round_trip() {
        let op = JournalOp { keyspace: 7, kind: Kind::DeleteRange, key: b"a".to_vec(), value: b"b".to_vec() };
        let mut out = Vec::new();
        JournalRecord::encode_write(
            &mut out,
            3,
            9,
            64,
            [(op.keyspace, op.kind, &op.key[..], &op.value[..])].into_iter(),
        );
        let expected = JournalRecord::Write { batch: 3, version: 9, durable_bytes: 64, ops: vec![op] };
        assert_eq!(JournalRecord::decode(&out), Ok(expected));
        for len in 0..out.len() {
            assert!(JournalRecord::decode(&out[..len]).is_err(), "{len} bytes must not decode");
        }
    }
}

//! The edits and their bytes.

use crate::format::codec::{Decoder, Malformed, put_bytes, put_varint, within};
use crate::mvcc::{DeadBatches, RecoveryTable};

/// One step from a set of files to the next.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// A keyspace is created, or its metadata replaced.
    Keyspace(KeyspaceEdit),
    /// A keyspace is dropped as of a version: a recovery to an earlier version undoes this.
    DropKeyspace { keyspace: u32, version: u64 },
    /// The files of a dropped keyspace are no longer needed.
    ForgetKeyspace { keyspace: u32 },
    /// A change that only the keyspace's layout understands.
    Layout { keyspace: u32, payload: Vec<u8> },
    /// An epoch begins.
    Start(StartEdit),
    /// Everything up to a version is durable.
    Checkpoint(CheckpointEdit),
    /// The length of a log segment of an earlier epoch was determined.
    Segment(SegmentEdit),
    /// Number of bytes of the manifest that were durable when this was written: damage before that
    /// is no torn end.
    Durable { bytes: u64 },
    /// Edits that count together or not at all.
    Group(Vec<Edit>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyspaceEdit {
    pub keyspace: u32,
    pub name: String,
    pub layout: u8,
    pub comparator: String,
    pub metadata: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct StartEdit {
    pub epoch: u64,
    pub first_version: u64,
    pub recovery_table: RecoveryTable,
    pub dead_batches: DeadBatches,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct CheckpointEdit {
    /// Every write of this version or below is durable; later writes of this epoch are not vouched
    /// for.
    pub version: u64,
    /// No version of this epoch reaches this one; the next epoch starts here.
    pub ceiling: u64,
    pub next_file: u64,
    pub next_keyspace: u32,
    /// Spanning batches below this number are whole or were never written.
    pub next_batch: u64,
    /// Journal files below this number are not needed.
    pub first_journal: u64,
    /// Number of bytes of the manifest that were durable when the checkpoint was written: damage
    /// before that is no torn end. Filled in by the manifest.
    pub durable_bytes: u64,
    pub segments: Vec<SegmentEdit>,
    /// Edits that layouts add to the checkpoint, with their keyspaces. They count with the
    /// checkpoint or not at all. Those of a keyspace that was forgotten meanwhile have no effect.
    pub parts: Vec<(u32, Vec<u8>)>,
}

/// The length up to which a log segment is vouched for. Damage below `len` is corruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentEdit {
    pub file: u64,
    pub len: u64,
    /// The place of the record that ends the newest indexed part; (0, 0) if there is none.
    pub part: (u64, u32),
    /// Estimated bytes of garbage in the segment and in what it overwrites.
    pub garbage_bytes: u64,
    /// Bytes of keys and values of the puts below `len`, and the number of these puts.
    pub user_bytes: u64,
    pub puts: u64,
    /// The part of these bytes that belongs to large puts.
    pub large_bytes: u64,
    /// The first operation whose garbage is not counted yet; 0 if all of it is counted.
    pub uncounted_from: u64,
}

impl SegmentEdit {
    fn encode(&self, out: &mut Vec<u8>) {
        for number in [
            self.file,
            self.len,
            self.part.0,
            u64::from(self.part.1),
            self.garbage_bytes,
            self.user_bytes,
            self.puts,
            self.large_bytes,
            self.uncounted_from,
        ] {
            put_varint(out, number);
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            file: decoder.number()?,
            len: decoder.size()?,
            part: (decoder.size()?, u32_of(decoder)?),
            garbage_bytes: decoder.size()?,
            user_bytes: decoder.size()?,
            puts: decoder.size()?,
            large_bytes: decoder.size()?,
            uncounted_from: decoder.size()?,
        })
    }
}

fn u32_of(decoder: &mut Decoder<'_>) -> Result<u32, Malformed> {
    u32::try_from(decoder.varint()?).map_err(|_| Malformed("a number exceeds 32 bits"))
}

/// The number of a keyspace. It leaves room for the next one in 32 bits as well.
fn keyspace_of(decoder: &mut Decoder<'_>) -> Result<u32, Malformed> {
    u32_of(decoder).and_then(|keyspace| within(keyspace.into(), u64::from(u32::MAX >> 1)).map(|_| keyspace))
}

fn text(decoder: &mut Decoder<'_>) -> Result<String, Malformed> {
    std::str::from_utf8(decoder.bytes()?).map(str::to_owned).map_err(|_| Malformed("a name is not UTF-8"))
}

/// The first byte of a record: the kind of its edit.
mod tag {
    pub(super) const KEYSPACE: u8 = 1;
    pub(super) const DROP_KEYSPACE: u8 = 2;
    pub(super) const FORGET_KEYSPACE: u8 = 3;
    pub(super) const LAYOUT: u8 = 4;
    pub(super) const START: u8 = 5;
    pub(super) const CHECKPOINT: u8 = 6;
    pub(super) const SEGMENT: u8 = 7;
    pub(super) const DURABLE: u8 = 8;
    pub(super) const GROUP: u8 = 9;
}

/// Number of integers in a checkpoint's record up to and including the durable bytes of the
/// manifest.
const CHECKPOINT_NUMBERS: usize = 7;

impl Edit {
    /// Number of bytes of the manifest that were durable, as the head of a record proves.
    pub fn proven_bytes(head: &[u8]) -> u64 {
        let mut decoder = Decoder::new(head);
        let before = match decoder.u8() {
            Ok(tag::CHECKPOINT) => CHECKPOINT_NUMBERS - 1,
            Ok(tag::DURABLE) => 0,
            _ => return 0,
        };
        let proven = (0..before).try_for_each(|_| decoder.varint().map(drop)).and_then(|()| decoder.varint());
        proven.unwrap_or(0)
    }

    /// True if a record of a manifest may begin with these bytes: `MayBegin` of `log/record.rs`.
    pub fn may_begin(beginning: &[u8], _: u64) -> bool {
        beginning.first().is_some_and(|tag| (tag::KEYSPACE..=tag::GROUP).contains(tag))
    }

    /// Number of bytes in the head of an encoded edit's record: the part that `proven_bytes` needs.
    pub fn head_bytes(encoded: &[u8]) -> usize {
        let mut decoder = Decoder::new(encoded);
        let numbers = if decoder.u8() == Ok(tag::CHECKPOINT) { CHECKPOINT_NUMBERS } else { 0 };
        // The edit was encoded just now, so it has all of them.
        let _ = (0..numbers).try_for_each(|_| decoder.varint().map(drop));
        encoded.len() - decoder.rest().len()
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Keyspace(edit) => {
                out.push(tag::KEYSPACE);
                put_varint(&mut out, u64::from(edit.keyspace));
                put_bytes(&mut out, edit.name.as_bytes());
                out.push(edit.layout);
                put_bytes(&mut out, edit.comparator.as_bytes());
                put_bytes(&mut out, &edit.metadata);
            }
            Self::DropKeyspace { keyspace, version } => {
                out.push(tag::DROP_KEYSPACE);
                put_varint(&mut out, u64::from(*keyspace));
                put_varint(&mut out, *version);
            }
            Self::ForgetKeyspace { keyspace } => {
                out.push(tag::FORGET_KEYSPACE);
                put_varint(&mut out, u64::from(*keyspace));
            }
            Self::Layout { keyspace, payload } => {
                out.push(tag::LAYOUT);
                put_varint(&mut out, u64::from(*keyspace));
                out.extend_from_slice(payload);
            }
            Self::Start(edit) => {
                out.push(tag::START);
                put_varint(&mut out, edit.epoch);
                put_varint(&mut out, edit.first_version);
                edit.recovery_table.encode(&mut out);
                edit.dead_batches.encode(&mut out);
            }
            Self::Checkpoint(edit) => {
                out.push(tag::CHECKPOINT);
                for number in [
                    edit.version,
                    edit.ceiling,
                    edit.next_file,
                    u64::from(edit.next_keyspace),
                    edit.next_batch,
                    edit.first_journal,
                    edit.durable_bytes,
                    edit.segments.len() as u64,
                ] {
                    put_varint(&mut out, number);
                }
                for segment in &edit.segments {
                    segment.encode(&mut out);
                }
                for (keyspace, payload) in &edit.parts {
                    put_varint(&mut out, u64::from(*keyspace));
                    put_bytes(&mut out, payload);
                }
            }
            Self::Segment(edit) => {
                out.push(tag::SEGMENT);
                edit.encode(&mut out);
            }
            Self::Durable { bytes } => {
                out.push(tag::DURABLE);
                put_varint(&mut out, *bytes);
            }
            Self::Group(edits) => {
                out.push(tag::GROUP);
                edits.iter().for_each(|edit| put_bytes(&mut out, &edit.encode()));
            }
        }
        out
    }

    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(payload);
        let edit = match decoder.u8()? {
            tag::KEYSPACE => Self::Keyspace(KeyspaceEdit {
                keyspace: keyspace_of(&mut decoder)?,
                name: text(&mut decoder)?,
                layout: decoder.u8()?,
                comparator: text(&mut decoder)?,
                metadata: decoder.bytes()?.to_vec(),
            }),
            tag::DROP_KEYSPACE => {
                Self::DropKeyspace { keyspace: keyspace_of(&mut decoder)?, version: decoder.number()? }
            }
            tag::FORGET_KEYSPACE => Self::ForgetKeyspace { keyspace: keyspace_of(&mut decoder)? },
            tag::LAYOUT => {
                let keyspace = keyspace_of(&mut decoder)?;
                return Ok(Self::Layout { keyspace, payload: decoder.rest().to_vec() });
            }
            tag::START => {
                let epoch = decoder.number()?;
                let first_version = decoder.number()?;
                let recovery_table = RecoveryTable::decode(&mut decoder)?;
                let dead_batches = DeadBatches::decode(&mut decoder)?;
                Self::Start(StartEdit { epoch, first_version, recovery_table, dead_batches })
            }
            tag::CHECKPOINT => {
                let mut edit = CheckpointEdit {
                    version: decoder.number()?,
                    ceiling: decoder.number()?,
                    next_file: decoder.number()?,
                    next_keyspace: keyspace_of(&mut decoder)?,
                    next_batch: decoder.number()?,
                    first_journal: decoder.number()?,
                    durable_bytes: decoder.size()?,
                    segments: Vec::new(),
                    parts: Vec::new(),
                };
                for _ in 0..decoder.varint()? {
                    edit.segments.push(SegmentEdit::decode(&mut decoder)?);
                }
                while !decoder.rest().is_empty() {
                    let keyspace = keyspace_of(&mut decoder)?;
                    edit.parts.push((keyspace, decoder.bytes()?.to_vec()));
                }
                Self::Checkpoint(edit)
            }
            tag::SEGMENT => Self::Segment(SegmentEdit::decode(&mut decoder)?),
            tag::DURABLE => Self::Durable { bytes: decoder.size()? },
            tag::GROUP => {
                let mut edits = Vec::new();
                while !decoder.rest().is_empty() {
                    let edit = decoder.bytes()?;
                    // One level only: the contents of a file must not decide the depth of the
                    // recursion.
                    if edit.first() == Some(&tag::GROUP) {
                        return Err(Malformed("is a group within a group"));
                    }
                    edits.push(Self::decode(edit)?);
                }
                Self::Group(edits)
            }
            _ => return Err(Malformed("an edit has an unknown tag")),
        };
        decoder.finish()?;
        Ok(edit)
    }
}

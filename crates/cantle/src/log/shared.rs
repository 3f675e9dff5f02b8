//! A log that several writers append to.
//!
//! An append holds the lock of the log's end while it copies the operations of one write, so the
//! records of one write are contiguous. If the write fails later, other records may follow it
//! already. Such a write is *revoked* by a record that names the offset and the checksum of the
//! write's first operation ([`Revoke`]). Loading, indexing a part and repair skip revoked writes.
//!
//! Invariants:
//!
//! * The log's length covers every record that was appended completely, visible or not. The log is
//!   marked as dirty before the lock is released.
//! * A write is revoked before its announcement ends. A checkpoint that covers the write's version
//!   thus covers its revoke.
//! * A complete write is not truncated, even if it is the last one: a checkpoint may have recorded
//!   the log's length with it.
//! * An append or a revoke that fails is truncated under the same lock, because no length covers
//!   it. If the truncation fails too, nothing is appended any more.

use crate::format::header::HEADER_BYTES;
use crate::log::env::LogEnv;
use crate::log::index::memory_part::RecordPtr;
use crate::log::op::record::{Link, LogOp, LogRecord, Revoke};
use crate::log::segment::Segment;
use crate::log::tail::Tail;
use crate::records::encode_record;
use crate::sync::{Arc, Mutex, waits};
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};

/// A segment of this epoch to which several writers may append.
pub struct SharedLog {
    pub segment: Arc<Segment>,
    end: Mutex<End>,
    /// Called with the number of bytes that were appended, so that the next checkpoint syncs them.
    on_append: OnAppend,
}

/// Takes the log and the number of bytes that were appended: see `Substrate::create_shared_log`.
pub type OnAppend = Box<dyn Fn(&Arc<Segment>, u64) + Send + Sync>;

struct End {
    offset: u64,
    link: Link,
    /// Offset of the part that is indexed in memory.
    part_start: u64,
    /// True if an incomplete record may follow the end.
    broken: bool,
}

/// The place of a write in the log.
pub struct Appended {
    /// The places of its operations, in their order.
    pub places: Vec<RecordPtr>,
    offset: u64,
    bytes: u64,
    /// The checksum of its first operation's payload.
    check: u32,
}

/// An operation to append: its kind, its key, and its value or the bytes of its bounds.
pub type Operation<'a> = (Kind, &'a [u8], &'a [u8]);

impl Appended {
    /// The disk space that its records take, with the page that the first ones of a log begin.
    pub fn disk_bytes(&self) -> u64 {
        self.bytes + Tail::unpromised_page(self.offset)
    }
}

impl SharedLog {
    /// The end of a new, empty segment.
    pub fn new(segment: Arc<Segment>, on_append: OnAppend) -> Self {
        let end =
            End { offset: HEADER_BYTES, link: Link::default(), part_start: HEADER_BYTES, broken: false };
        Self { segment, end: Mutex::new(end), on_append }
    }

    /// Appends the operations of one write with this version and batch. No reader sees them yet.
    pub fn append(
        &self,
        env: &LogEnv,
        (version, batch): (u64, u64),
        ops: &[Operation<'_>],
    ) -> Result<Appended> {
        let end = &mut *waits::lock(&self.end);
        let base_version = self.header()?.base_version;
        let (mut link, mut payload, mut records, mut check) = (end.link, Vec::new(), Vec::new(), None);
        for (index, &(kind, key, value)) in ops.iter().enumerate() {
            let more = index + 1 < ops.len();
            let op = LogOp { kind, version, batch, more, link, key, value };
            link = link.next(kind, key);
            payload.clear();
            op.encode(base_version, &mut payload);
            check.get_or_insert_with(|| crc32c::crc32c(&payload));
            records.push((op.payload_bytes(base_version), payload.clone()));
        }
        let Some(check) = check else {
            return Err(Error::InvalidArgument("a write without operations".into()));
        };
        let offset = end.offset;
        let places = self.append_records(env, end, &records)?;
        end.link = link;
        self.segment.note_version(version);
        Ok(Appended { places, offset, bytes: end.offset - offset, check })
    }

    /// Revokes a write that was appended. After an error the log may still contain the write as
    /// valid.
    pub fn revoke(&self, env: &LogEnv, write: &Appended) -> Result<()> {
        canary!(FAILED_WRITE_NOT_REVOKED => return Ok(()));
        let end = &mut *self.end.lock();
        let mut payload = Vec::new();
        let Appended { offset, bytes, check, .. } = *write;
        LogRecord::encode_revoke(Revoke { link: end.link, offset, bytes, check }, &mut payload);
        let lengths = (payload.len(), payload.len());
        self.append_records(env, end, &[(lengths, payload)])?;
        end.link = end.link.behind_revoke();
        self.segment.add_void(offset, bytes);
        Ok(())
    }

    /// Writes indexes of everything to disk, for later openings. No write may be under way.
    pub fn seal(&self, env: &LogEnv) -> Result<()> {
        let end = &mut *self.end.lock();
        let sealed = self.segment.seal_part(env, end.part_start, end.offset, end.link.ordinal);
        // An incomplete index may follow the end.
        let sealed = sealed.inspect_err(|_| end.broken |= self.segment.truncate(end.offset).is_err())?;
        if sealed > end.offset {
            (self.on_append)(&self.segment, sealed - end.offset);
        }
        (end.offset, end.part_start) = (sealed, sealed);
        Ok(())
    }

    /// True if an incomplete record may follow the log's end, because it could not be truncated.
    /// Nothing is appended any more.
    pub fn is_broken(&self) -> bool {
        self.end.lock().broken
    }

    fn header(&self) -> Result<crate::format::header::FileHeader> {
        Ok(self.segment.loaded().ok_or(Error::Closed)?.header)
    }

    /// Appends payloads, each with the length of its head and its total length.
    fn append_records(
        &self,
        env: &LogEnv,
        end: &mut End,
        payloads: &[((usize, usize), Vec<u8>)],
    ) -> Result<Vec<RecordPtr>> {
        if end.broken {
            let reason =
                format!("a failed append to {} could not be taken back", self.segment.file.path.display());
            return Err(Error::ReadOnly { reason });
        }
        let header = self.header()?;
        let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(payloads.len()));
        for (lengths, payload) in payloads {
            let (offset, before) = (end.offset + bytes.len() as u64, bytes.len());
            encode_record(&header, offset, *lengths, &mut bytes, |out| out.extend_from_slice(payload));
            places.push(RecordPtr { offset, len: (bytes.len() - before) as u32 });
        }
        if let Err(error) = self.segment.append(env, (&bytes, payloads.len()), end.offset, true) {
            if let Err(cut) = self.segment.truncate(end.offset) {
                tracing::warn!(error = %cut, "abandoned a log whose failed append cannot be truncated");
                end.broken = true;
            }
            return Err(error);
        }
        end.offset += bytes.len() as u64;
        self.segment.set_len(end.offset);
        env.counters.log_bytes_written.add(bytes.len() as u64);
        // After the length is set: if the log is still marked as dirty, the sync that follows
        // covers this record.
        (self.on_append)(&self.segment, bytes.len() as u64);
        Ok(places)
    }
}

//! A log that several writers append to.
//!
//! Each append of a write's operations holds the log's end for a copy, so the records of one write stand together. Others may
//! stand behind them when the write turns out to have failed: it is *revoked* by a record of its own, which names the offset and
//! the checksum of the write's first operation ([`Revoke`]). Loading, indexing a part and repair pass over what was revoked.
//!
//! Invariants: the log's length covers every record that was appended whole, visible or not, and the log is marked as dirty before the
//! lock goes. A write is revoked before its announcement ends: so a checkpoint that covers its version covers its revoke. A write is not
//! cut off, even if it is the last: a checkpoint may have recorded the log's length with it. An append or a revoke that fails is cut off
//! under the same lock, as no length covers it; where that fails, too, nothing is appended any more.

use crate::format::header::HEADER_BYTES;
use crate::log::env::LogEnv;
use crate::log::index::memory_part::RecordPtr;
use crate::log::op::record::{Link, LogOp, LogRecord, Revoke};
use crate::log::segment::Segment;
use crate::records::encode_record;
use crate::sync::{Arc, Mutex};
use crate::types::entry::Kind;
use crate::types::error::{Error, Result};

/// A segment of this epoch with an end for several writers.
pub struct SharedLog {
    pub segment: Arc<Segment>,
    end: Mutex<End>,
    /// Told of the bytes that were appended, so that the next checkpoint syncs them.
    on_append: OnAppend,
}

/// Takes the log and the bytes that were appended: see `Substrate::create_shared_log`.
pub type OnAppend = Box<dyn Fn(&Arc<Segment>, u64) + Send + Sync>;

struct End {
    offset: u64,
    link: Link,
    /// The start of the part that is indexed in memory.
    part_start: u64,
    /// Half a record may stand at the end.
    broken: bool,
}

/// A write as it stands in the log.
pub struct Appended {
    /// Those of its operations, in their order.
    pub places: Vec<RecordPtr>,
    offset: u64,
    bytes: u64,
    /// The checksum of its first operation's payload.
    check: u32,
}

/// An operation to append: its kind, its key, and its value or the bytes of its bounds.
pub type Operation<'a> = (Kind, &'a [u8], &'a [u8]);

impl SharedLog {
    /// The end of a new, empty segment.
    pub fn new(segment: Arc<Segment>, on_append: OnAppend) -> Self {
        let end =
            End { offset: HEADER_BYTES, link: Link::default(), part_start: HEADER_BYTES, broken: false };
        Self { segment, end: Mutex::new(end), on_append }
    }

    /// Appends the operations of one write of this version and batch. What is appended shows to nobody.
    pub fn append(
        &self,
        env: &LogEnv,
        (version, batch): (u64, u64),
        ops: &[Operation<'_>],
    ) -> Result<Appended> {
        let end = &mut *self.end.lock();
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

    /// Makes a write void that was appended. After an error the log may say of it that it took place.
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

    /// Indexes everything on disk, for later openings. Nobody has a write on its way.
    pub fn seal(&self, env: &LogEnv) -> Result<()> {
        let end = &mut *self.end.lock();
        let sealed = self.segment.seal_part(env, end.part_start, end.offset, end.link.ordinal);
        // Half an index may stand behind the end.
        let sealed = sealed.inspect_err(|_| end.broken |= self.segment.truncate(end.offset).is_err())?;
        if sealed > end.offset {
            (self.on_append)(&self.segment, sealed - end.offset);
        }
        (end.offset, end.part_start) = (sealed, sealed);
        Ok(())
    }

    /// True if half a record may stand behind the log's end, as it could not be cut off. Nothing is appended any more.
    pub fn is_broken(&self) -> bool {
        self.end.lock().broken
    }

    fn header(&self) -> Result<crate::format::header::FileHeader> {
        Ok(self.segment.loaded().ok_or(Error::Closed)?.header)
    }

    /// Appends payloads, each with the lengths of its head and of all of it.
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
                tracing::warn!(error = %cut, "abandons a log whose failed append cannot be taken back");
                end.broken = true;
            }
            return Err(error);
        }
        end.offset += bytes.len() as u64;
        self.segment.set_len(end.offset);
        env.counters.log_bytes_written.add(bytes.len() as u64);
        // Behind the length: who finds the mark still there has the record synced.
        (self.on_append)(&self.segment, bytes.len() as u64);
        Ok(places)
    }
}

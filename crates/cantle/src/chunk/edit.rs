//! The chunk layout's state in the manifest: chunks and their files.

use crate::chunk::chunk::Chunk;
use crate::format::codec::{Decoder, Malformed, put_varint};
use crate::format::header::FileKind;
use crate::manifest::{Area, AreaFile, LayoutState};
use crate::run::record::{FileRecord, decode_ids, encode_ids, optional_key, put_optional_key};
use crate::run::run::Run;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

/// A change of the set of chunks.
#[derive(Debug, Clone, PartialEq)]
pub enum ChunkEdit {
    /// These chunks are replaced by those, which cover the same range.
    Replace { removed: Vec<u64>, added: Vec<ChunkRecord> },
    /// Later writes of a chunk go to a new log.
    Log { chunk: u64, file: u64, epoch: u64 },
    /// Everything in these chunks was deleted.
    Drop { chunks: Vec<u64>, version: u64, batch: u64 },
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChunkRecord {
    pub id: u64,
    /// The chunk's smallest possible key; `None` for the first chunk. The chunk ends where the next
    /// begins.
    pub start: Option<Bytes>,
    /// Newest first.
    pub files: Vec<FileRecord>,
}

impl ChunkRecord {
    pub fn of(chunk: &Chunk, files: &[Run]) -> Self {
        Self {
            id: chunk.id,
            start: chunk.span.start.clone(),
            files: files.iter().map(|file| FileRecord::of(file, &chunk.span)).collect(),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.id);
        put_optional_key(out, self.start.as_ref());
        put_varint(out, self.files.len() as u64);
        for file in &self.files {
            file.encode(out);
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let mut record = Self { id: decoder.number()?, start: optional_key(decoder)?, files: Vec::new() };
        for _ in 0..decoder.varint()? {
            let file = FileRecord::decode(decoder)?;
            if !file.referred.is_empty() {
                return Err(Malformed("refers to values in logs, as no table of this layout does"));
            }
            record.files.push(file);
        }
        Ok(record)
    }
}

const REPLACE_TAG: u8 = 1;
const LOG_TAG: u8 = 2;
const DROP_TAG: u8 = 3;

impl ChunkEdit {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Replace { removed, added } => {
                out.push(REPLACE_TAG);
                encode_ids(&mut out, removed);
                put_varint(&mut out, added.len() as u64);
                for chunk in added {
                    chunk.encode(&mut out);
                }
            }
            Self::Log { chunk, file, epoch } => {
                out.push(LOG_TAG);
                put_varint(&mut out, *chunk);
                put_varint(&mut out, *file);
                put_varint(&mut out, *epoch);
            }
            Self::Drop { chunks, version, batch } => {
                out.push(DROP_TAG);
                encode_ids(&mut out, chunks);
                put_varint(&mut out, *version);
                put_varint(&mut out, *batch);
            }
        }
        out
    }

    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(payload);
        let edit = match decoder.u8()? {
            REPLACE_TAG => {
                let removed = decode_ids(&mut decoder)?;
                let mut added = Vec::new();
                for _ in 0..decoder.varint()? {
                    added.push(ChunkRecord::decode(&mut decoder)?);
                }
                Self::Replace { removed, added }
            }
            LOG_TAG => {
                Self::Log { chunk: decoder.number()?, file: decoder.number()?, epoch: decoder.number()? }
            }
            DROP_TAG => Self::Drop {
                chunks: decode_ids(&mut decoder)?,
                version: decoder.number()?,
                batch: decoder.number()?,
            },
            _ => return Err(Malformed("has an unknown chunk edit")),
        };
        decoder.finish()?;
        Ok(edit)
    }
}

/// The chunks according to the manifest.
#[derive(Debug, Default)]
pub struct ChunkMap {
    pub chunks: BTreeMap<u64, ChunkRecord>,
}

impl ChunkMap {
    /// One chunk that refers once to every file. For a keyspace that was dropped: nothing of it is
    /// read any more, so its order does not matter.
    pub fn only_files(self) -> Self {
        let mut seen = HashSet::new();
        let files = self.chunks.into_values().flat_map(|chunk| chunk.files);
        let once = files.filter(|file| seen.insert(file.file));
        let files = once.map(|file| FileRecord { span: None, share_bytes: None, ..file }).collect();
        Self { chunks: BTreeMap::from([(1, ChunkRecord { id: 1, start: None, files })]) }
    }
}

impl LayoutState for ChunkMap {
    fn apply(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let unknown = Malformed("names an unknown chunk");
        match ChunkEdit::decode(payload)? {
            ChunkEdit::Replace { removed, added } => {
                for id in removed {
                    self.chunks.remove(&id).ok_or(unknown)?;
                }
                for chunk in added {
                    if self.chunks.insert(chunk.id, chunk).is_some() {
                        return Err(Malformed("adds a chunk that is there"));
                    }
                }
            }
            ChunkEdit::Log { chunk, file, epoch } => {
                let record = FileRecord::log(file, epoch);
                self.chunks.get_mut(&chunk).ok_or(unknown)?.files.insert(0, record);
            }
            ChunkEdit::Drop { chunks, version, batch } => {
                for id in chunks {
                    for file in &mut self.chunks.get_mut(&id).ok_or(unknown)?.files {
                        file.dropped.get_or_insert((version, batch));
                    }
                }
            }
        }
        Ok(())
    }

    fn resolve(&mut self, dead: &dyn Fn(u64, u64) -> bool) {
        for file in self.chunks.values_mut().flat_map(|chunk| &mut chunk.files) {
            file.dropped = file
                .dropped
                .filter(|&(version, batch)| !dead(version, batch))
                .map(|(version, _)| (version, 0));
        }
    }

    fn dump(&self, emit: &mut dyn FnMut(Vec<u8>)) {
        for chunk in self.chunks.values() {
            emit(ChunkEdit::Replace { removed: Vec::new(), added: vec![chunk.clone()] }.encode());
        }
    }

    fn files(&self, visit: &mut dyn FnMut(FileKind, u64, u64)) {
        for file in self.chunks.values().flat_map(|chunk| &chunk.files) {
            visit(file.kind, file.file, file.epoch);
        }
    }

    fn areas(&self, order: &KeyOrder) -> Result<Vec<Area>, Malformed> {
        let mut records: Vec<&ChunkRecord> = self.chunks.values().collect();
        let compare = |a: &Option<Bytes>, b: &Option<Bytes>| match (a, b) {
            (Some(a), Some(b)) => order.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        order.sort_by(&mut records, |a, b| compare(&a.start, &b.start));
        let first_is_lowest = records.first().is_some_and(|first| first.start.is_none());
        let is_out_of_order =
            |pair: &[&ChunkRecord]| compare(&pair[0].start, &pair[1].start) != Ordering::Less;
        if !first_is_lowest || records.windows(2).any(is_out_of_order) {
            return Err(Malformed("names chunks that do not cover the keys"));
        }
        let ends = records.iter().skip(1).map(|record| record.start.clone()).chain([None]);
        let area = |(record, end): (&&ChunkRecord, _)| {
            let span = Span { start: record.start.clone(), end };
            let file = |file: &FileRecord| AreaFile {
                kind: file.kind,
                file: file.file,
                epoch: file.epoch,
                span: file.span.clone().unwrap_or_else(|| span.clone()),
            };
            // Files that a range delete dropped are not visible to any reader any more.
            let files = record.files.iter().filter(|file| file.dropped.is_none()).map(file).collect();
            Area { span, files }
        };
        Ok(records.iter().zip(ends).map(area).collect())
    }
}

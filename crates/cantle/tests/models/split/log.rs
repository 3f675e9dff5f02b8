//! Logs, tables and runs in the model of splits. A byte stands for each entry.

use crate::chunk::chunk::Context;
use crate::sync::{Arc, Mutex};
use crate::types::error::Result;
use bytes::Bytes;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: Bytes,
    pub version: u64,
    pub value: u64,
}

pub struct StoreFile {
    pub id: u64,
    pub epoch: u64,
    pub is_log: bool,
    /// In the order of writing; those of a table do not change.
    pub entries: Mutex<Vec<Entry>>,
    /// References of current chunks.
    pub references: Mutex<u64>,
}

impl StoreFile {
    pub fn new(id: u64, is_log: bool, entries: Vec<Entry>) -> Arc<Self> {
        let (entries, references) = (Mutex::new(entries), Mutex::new(0));
        Arc::new(Self { id, epoch: 1, is_log, entries, references })
    }

    pub fn bytes(&self) -> u64 {
        self.entries.lock().len() as u64
    }
}

pub struct Segment {
    pub file: Arc<StoreFile>,
    /// The number of entries that parts on disk index.
    pub indexed: Mutex<usize>,
    pub forgets_the_newest_part: bool,
}

pub struct Parts {
    pub memory: Option<MemoryPart>,
    /// The newest first.
    pub indexed: Vec<IndexedPart>,
    pub header: Header,
}

pub struct Header;

/// The keys of the newest part, ascending.
pub struct MemoryPart(Vec<Bytes>);

impl MemoryPart {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn has_more_up_to(&self, key: &[u8], count: usize) -> bool {
        self.0.get(count).is_some_and(|beyond| beyond[..] <= *key)
    }

    pub fn last_key(&self) -> Option<Bytes> {
        self.0.last().cloned()
    }

    pub fn key_before_last(&self) -> Option<Bytes> {
        self.0.iter().rev().nth(1).cloned()
    }
}

pub struct IndexedPart {
    keys: Vec<Bytes>,
}

impl IndexedPart {
    pub fn known_keys(&self) -> Option<(&[u8], &[u8])> {
        Some((self.keys.first()?, self.keys.last()?))
    }

    pub fn bytes(&self) -> u64 {
        self.keys.len() as u64
    }
}

fn keys(entries: &[Entry]) -> Vec<Bytes> {
    let mut keys: Vec<Bytes> = entries.iter().map(|entry| entry.key.clone()).collect();
    keys.sort();
    keys.dedup();
    keys
}

impl Segment {
    pub fn loaded(&self) -> Option<Parts> {
        let indexed = *self.indexed.lock();
        let entries = self.file.entries.lock();
        let (indexed, memory) = entries.split_at(indexed);
        let memory = Some(MemoryPart(keys(memory))).filter(|part| part.len() > 0);
        let indexed = Some(IndexedPart { keys: keys(indexed) }).filter(|part| part.bytes() > 0);
        Some(Parts { memory, indexed: indexed.into_iter().collect(), header: Header })
    }

    pub fn parts(&self, _: &Context) -> Result<Parts> {
        let mut parts = self.loaded().unwrap_or_else(|| unreachable!("it is always loaded"));
        parts.memory = parts.memory.filter(|_| !self.forgets_the_newest_part);
        Ok(parts)
    }

    pub fn seal(&self) {
        *self.indexed.lock() = self.file.entries.lock().len();
    }
}

pub struct TableHandle {
    pub file: Arc<StoreFile>,
}

impl TableHandle {
    pub fn open<T, F, O, C>(&self, _: &T, _: &F, _: &O, _: &C) -> Result<&Self> {
        Ok(self)
    }

    /// The number of entries before the key.
    pub fn offset_of(&self, key: &[u8]) -> Result<u64> {
        Ok(self.file.entries.lock().iter().filter(|entry| entry.key < key).count() as u64)
    }
}

pub mod index {
    pub mod indexed_part {
        pub use crate::log::IndexedPart;
    }
}

pub mod read {
    pub mod learn {
        use crate::chunk::chunk::Context;
        use crate::fetch::Directly;
        use crate::log::{Header, IndexedPart, Segment};
        use crate::types::error::Result;

        /// The keys of each part are known.
        pub fn learn(_: &Context, _: &Segment, _: &Header, _: &IndexedPart, _: &Directly) -> Result<()> {
            Ok(())
        }
    }
}

pub mod segment {
    pub use super::Segment;
}

pub mod run {
    use super::{Segment, StoreFile, TableHandle};
    use crate::chunk::chunk::Totals;
    use crate::sync::Arc;
    use crate::types::span::Span;

    #[derive(Clone)]
    pub enum Source {
        Log(Arc<Segment>),
        Table(Arc<TableHandle>),
    }

    #[derive(Clone)]
    pub struct Run {
        pub source: Source,
        pub span: Arc<Span>,
        pub dropped: Option<()>,
        pub share_bytes: Option<u64>,
    }

    impl Run {
        pub fn file(&self) -> &Arc<StoreFile> {
            match &self.source {
                Source::Log(segment) => &segment.file,
                Source::Table(table) => &table.file,
            }
        }

        pub fn part(&self, span: Span, share_bytes: u64) -> Self {
            Self { span: span.into(), share_bytes: Some(share_bytes), ..self.clone() }
        }

        pub fn bytes(&self) -> u64 {
            self.share_bytes.unwrap_or_else(|| self.file().bytes())
        }

        pub fn retain(&self, _: &Totals) {
            *self.file().references.lock() += 1;
        }
    }

    /// Newest first.
    #[derive(Clone, Default)]
    pub struct RunStack {
        pub files: Vec<Run>,
    }

    impl RunStack {
        pub fn sizes(&self) -> StackSizes {
            StackSizes::default()
        }
    }

    /// Nothing is counted.
    #[derive(Default)]
    pub struct StackSizes(());

    impl StackSizes {
        pub fn add(&mut self, _: &Self) {}
    }

    /// No split of the model sorts.
    pub struct OutputTable;
}

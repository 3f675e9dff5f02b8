//! The state that the edits produce, and the reader of a manifest.

use super::edit::{CheckpointEdit, Edit, KeyspaceEdit, SegmentEdit, StartEdit};
use crate::files::parse_file_name;
use crate::format::codec::Malformed;
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::records::{RecordFile, record_bytes_max};
use crate::types::error::{Attempt, Error, Result};
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use crate::vfs::{OpenMode, Vfs};
use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The state of a layout in the manifest. `Any`: the layout casts it back to its own type.
pub trait LayoutState: Any + Send {
    /// Applies one of the layout's own edits.
    fn apply(&mut self, payload: &[u8]) -> Result<(), Malformed>;
    /// Called when an epoch has ended. Undoes drops whose version, or spanning batch if that is not
    /// 0, turned out dead, and makes the others unconditional.
    fn resolve(&mut self, dead: &dyn Fn(u64, u64) -> bool);
    /// Emits edits that produce this state from an empty one.
    fn dump(&self, emit: &mut dyn FnMut(Vec<u8>));
    /// Visits every file that the state refers to, with the epoch in which it was created.
    fn files(&self, visit: &mut dyn FnMut(FileKind, u64, u64));
    /// The files by key ranges, for repair: ranges that cover all keys, in order. Fails if the
    /// state belongs to no keyspace.
    fn areas(&self, order: &KeyOrder) -> Result<Vec<Area>, Malformed>;
}

/// A key range, and the files that may have its keys, newest first; without those that a range delete dropped.
pub struct Area {
    pub span: Span,
    pub files: Vec<AreaFile>,
}

pub struct AreaFile {
    pub kind: FileKind,
    pub file: u64,
    /// The epoch in which it was created.
    pub epoch: u64,
    /// The keys of the file that count.
    pub span: Span,
}

/// Makes the empty state of the layout with this number, if the number is known.
pub type NewLayoutState = fn(layout: u8) -> Option<Box<dyn LayoutState>>;

pub struct KeyspaceState {
    pub edit: KeyspaceEdit,
    pub dropped: Option<u64>,
    pub layout: Box<dyn LayoutState>,
}

/// The state that the edits of a manifest produce.
pub struct State {
    pub keyspaces: BTreeMap<u32, KeyspaceState>,
    pub segments: HashMap<u64, SegmentEdit>,
    pub start: StartEdit,
    pub checkpoint: CheckpointEdit,
    new_layout: NewLayoutState,
}

impl State {
    pub fn new(new_layout: NewLayoutState) -> Self {
        Self {
            keyspaces: BTreeMap::new(),
            segments: HashMap::new(),
            start: StartEdit::default(),
            checkpoint: CheckpointEdit::default(),
            new_layout,
        }
    }

    /// Applies the next edit.
    pub fn apply(&mut self, edit: Edit) -> Result<(), Malformed> {
        match edit {
            Edit::Keyspace(edit) => match self.keyspaces.get_mut(&edit.keyspace) {
                Some(keyspace) => keyspace.edit = edit,
                None => {
                    let layout = (self.new_layout)(edit.layout)
                        .ok_or(Malformed("a keyspace has an unknown layout"))?;
                    self.keyspaces.insert(edit.keyspace, KeyspaceState { edit, dropped: None, layout });
                }
            },
            Edit::DropKeyspace { keyspace, version } => {
                let state = self
                    .keyspaces
                    .get_mut(&keyspace)
                    .ok_or(Malformed("an edit names an unknown keyspace"))?;
                state.dropped = Some(version);
            }
            Edit::ForgetKeyspace { keyspace } => {
                self.keyspaces.remove(&keyspace).ok_or(Malformed("an edit names an unknown keyspace"))?;
            }
            Edit::Layout { keyspace, payload } => {
                let state = self
                    .keyspaces
                    .get_mut(&keyspace)
                    .ok_or(Malformed("an edit names an unknown keyspace"))?;
                state.layout.apply(&payload)?;
            }
            Edit::Start(start) => {
                let ended = self.start.epoch;
                let dead = |version: u64, batch: u64| {
                    start.recovery_table.is_dead(version)
                        || (batch != 0 && start.dead_batches.is_dead(ended, batch))
                };
                for keyspace in self.keyspaces.values_mut() {
                    keyspace.dropped = keyspace.dropped.filter(|&version| !dead(version, 0));
                    keyspace.layout.resolve(&dead);
                }
                self.start = start;
            }
            Edit::Checkpoint(mut checkpoint) => {
                for segment in checkpoint.segments.drain(..) {
                    self.segments.insert(segment.file, segment);
                }
                for (keyspace, payload) in checkpoint.parts.drain(..) {
                    if let Some(state) = self.keyspaces.get_mut(&keyspace) {
                        state.layout.apply(&payload)?;
                    }
                }
                self.checkpoint = checkpoint;
            }
            Edit::Segment(segment) => {
                self.segments.insert(segment.file, segment);
            }
            Edit::Durable { .. } => {}
            Edit::Group(edits) => edits.into_iter().try_for_each(|edit| self.apply(edit))?,
        }
        Ok(())
    }

    /// Emits edits that produce this state from an empty one, including its segments but not the
    /// checkpoint.
    pub fn dump(&self, emit: &mut dyn FnMut(Edit)) {
        emit(Edit::Start(self.start.clone()));
        for (&keyspace, state) in &self.keyspaces {
            emit(Edit::Keyspace(state.edit.clone()));
            state.layout.dump(&mut |payload| emit(Edit::Layout { keyspace, payload }));
            if let Some(version) = state.dropped {
                emit(Edit::DropKeyspace { keyspace, version });
            }
            state.layout.files(&mut |_, file, _| {
                if let Some(segment) = self.segments.get(&file) {
                    emit(Edit::Segment(*segment));
                }
            });
        }
    }
}

impl State {
    /// Length of a manifest with exactly this state, in bytes.
    pub fn encoded_bytes(&self) -> u64 {
        let mut bytes = HEADER_BYTES;
        self.dump(&mut |edit| bytes += record_bytes_max(edit.encode().len()) as u64);
        bytes
    }
}

/// The result of reading a manifest.
pub struct Replayed {
    pub header: FileHeader,
    pub state: State,
    /// The place of the next edit. Any bytes after it are to be truncated.
    pub end: u64,
    /// Number of bytes that are edits since the last checkpoint.
    pub provisional_bytes: u64,
    /// The files that the last checkpoint refers to, if later edits were applied: they are its recovery image.
    pub checkpoint_files: Vec<(FileKind, u64)>,
    /// Bytes that are no record, with a record after them: damage, if nothing was lost when the
    /// writer died.
    pub gap: Option<Error>,
}

/// Reads a manifest. Bytes after the last checkpoint that are no record end the manifest; damage
/// before it is corruption. `provisional`: true if the edits after the last checkpoint count,
/// because the page cache outlived the process that wrote them.
pub fn replay(vfs: &dyn Vfs, path: &Path, new_layout: NewLayoutState, provisional: bool) -> Result<Replayed> {
    let file = vfs.open(path, OpenMode::Read).map_err(|e| Error::io(Attempt::Open, path, e))?;
    let header = FileHeader::read(&*file, path, FileKind::Manifest)?;
    let number = path.file_name().and_then(|name| parse_file_name(&name.to_string_lossy()));
    if let Some((_, number)) = number.filter(|&(_, number)| number != header.file) {
        let what = format!("the file is number {}, not number {number}", header.file);
        return Err(Error::corruption(path, 32, what));
    }
    let file_bytes = file.len().map_err(|e| Error::io(Attempt::Measure, path, e))?;
    let records = RecordFile { file, path: path.to_path_buf(), header };
    let mut state = State::new(new_layout);
    let mut scan = records.scan(0, file_bytes);
    let mut checkpoint_end = None;
    // Edits since the last checkpoint, which may turn out not to count.
    let mut pending: Vec<(u64, Edit)> = Vec::new();
    let malformed = |offset, what: Malformed| Error::corruption(path, offset, format!("an edit {}", what.0));
    let mut end = scan.offset();
    let mut gap = None;
    loop {
        let offset = scan.offset();
        match scan.next() {
            Ok(Some(record)) => {
                let edit = Edit::decode(record.payload).map_err(|what| malformed(offset, what))?;
                let is_checkpoint = matches!(edit, Edit::Checkpoint(_));
                end = scan.offset();
                if matches!(edit, Edit::Durable { .. }) && pending.is_empty() {
                    checkpoint_end = checkpoint_end.map(|_| end);
                    continue;
                }
                pending.push((offset, edit));
                if is_checkpoint {
                    checkpoint_end = Some(end);
                    apply_all(&mut state, &mut pending).map_err(|(o, what)| malformed(o, what))?;
                }
            }
            Ok(None) => break,
            Err(error) if error.is_corruption() => {
                // The torn end of the last write, unless a later record proves that it was once
                // durable. A later checkpoint alone proves nothing: its own sync may have been in
                // progress.
                let proves = |head: &[u8]| Edit::proven_bytes(head) > offset;
                let later = records.head_after(offset + 1, file_bytes, Edit::may_begin, proves)?;
                if later.is_some() || checkpoint_end.is_none() {
                    return Err(error);
                }
                let follows = records.head_after(offset + 1, file_bytes, Edit::may_begin, |_| true)?;
                gap = follows.map(|_| error);
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let Some(checkpoint_end) = checkpoint_end else {
        return Err(Error::corruption(path, end, "the manifest ends before its first checkpoint"));
    };
    let provisional_bytes = end - checkpoint_end;
    let mut checkpoint_files = Vec::new();
    if provisional && !pending.is_empty() {
        for keyspace in state.keyspaces.values() {
            keyspace.layout.files(&mut |kind, file, _| checkpoint_files.push((kind, file)));
        }
    }
    if provisional {
        apply_all(&mut state, &mut pending).map_err(|(o, what)| malformed(o, what))?;
    } else {
        end = checkpoint_end;
    }
    Ok(Replayed { header, state, end, provisional_bytes, checkpoint_files, gap })
}

fn apply_all(state: &mut State, pending: &mut Vec<(u64, Edit)>) -> std::result::Result<(), (u64, Malformed)> {
    pending.drain(..).try_for_each(|(offset, edit)| state.apply(edit).map_err(|what| (offset, what)))
}

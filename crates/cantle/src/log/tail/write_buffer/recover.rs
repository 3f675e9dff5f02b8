//! Writes the bytes that a dead process had buffered to its logs, before any of these is read.

use super::WRITE_BUFFER_FILE;
use super::format::{HEAD_BYTES, Head, SLOT_HEAD_BYTES, State};
use crate::files::file_name;
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::records::valid_extent;
use crate::sync::Arc;
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{OpenMode, Vfs, VfsFile};
use std::path::Path;

/// Called with the content of a slot, and the callback for damage.
pub type Visit<'a> = &'a mut dyn FnMut(&SlotContent<'_>, &mut dyn FnMut(Error)) -> Result<()>;

/// The header of the log in a file.
pub type HeaderOf<'a> = &'a dyn Fn(&dyn VfsFile, &Path) -> Result<FileHeader>;

/// Writes the bytes that the process of `epoch` had buffered to the logs of `store`, and returns
/// their number. Only if the page cache outlived the process. Repeating it changes nothing. Only
/// whole records that were written for exactly their place are used; anything else is ignored and
/// passed to `damaged`. `header_of` reads the header of a log.
pub fn recover(
    vfs: &dyn Vfs,
    dir: &Path,
    (store, epoch): (u128, u64),
    header_of: HeaderOf<'_>,
    damaged: &mut dyn FnMut(Error),
) -> Result<u64> {
    let Some(file) = open(vfs, dir)? else { return Ok(0) };
    let recovered = recover_open(&*file, vfs, dir, (store, epoch), header_of, damaged)?;
    if recovered > 0 {
        tracing::info!(dir = %dir.display(), bytes = recovered, "recovered buffered log records");
    }
    Ok(recovered)
}

/// As [`recover`], with a write buffer that is open.
pub fn recover_open(
    file: &dyn VfsFile,
    vfs: &dyn Vfs,
    dir: &Path,
    named: (u128, u64),
    header_of: HeaderOf<'_>,
    damaged: &mut dyn FnMut(Error),
) -> Result<u64> {
    let mut recovered = 0;
    read_open(file, dir, named, damaged, &mut |buffered, damaged| {
        recovered += buffered.put(vfs, dir, header_of, damaged)?;
        Ok(())
    })?;
    Ok(recovered)
}

/// Reads the bytes that the process of `epoch` had buffered for the logs of `store`, one slot at a
/// time.
pub fn read(
    vfs: &dyn Vfs,
    dir: &Path,
    (store, epoch): (u128, u64),
    damaged: &mut dyn FnMut(Error),
    visit: Visit<'_>,
) -> Result<()> {
    match open(vfs, dir)? {
        Some(file) => read_open(&*file, dir, (store, epoch), damaged, visit),
        None => Ok(()),
    }
}

/// The write buffer of the store in a directory, if there is one. The file can be read after it was removed.
pub fn open(vfs: &dyn Vfs, dir: &Path) -> Result<Option<Arc<dyn VfsFile>>> {
    let path = dir.join(WRITE_BUFFER_FILE);
    let failed = |error| Error::io(Attempt::Read, &path, error);
    if vfs.metadata(&path).map_err(failed)?.is_none() {
        return Ok(None);
    }
    vfs.open(&path, OpenMode::Read).map(Some).map_err(failed)
}

/// As [`read`], with a write buffer that is open.
fn read_open(
    file: &dyn VfsFile,
    dir: &Path,
    (store, epoch): (u128, u64),
    damaged: &mut dyn FnMut(Error),
    visit: Visit<'_>,
) -> Result<()> {
    let path = dir.join(WRITE_BUFFER_FILE);
    let failed = |error| Error::io(Attempt::Read, &path, error);
    let mut head = vec![0; HEAD_BYTES as usize];
    let read = file.read_at(&mut head, 0).map_err(failed)?;
    let Some(head) = Head::decode(&head[..read]) else {
        damaged(Error::corruption(&path, 0, "the write buffer is damaged: what was buffered in it is lost"));
        return Ok(());
    };
    if head.store != store {
        damaged(Error::corruption(
            &path,
            8,
            "the write buffer belongs to another store: what was buffered is lost",
        ));
        return Ok(());
    }
    if head.epoch != epoch {
        tracing::debug!(path = %path.display(), epoch = head.epoch, "the write buffer is of another epoch");
        return Ok(());
    }
    let mut slot = vec![0; head.slot_bytes as usize];
    for index in 0..u64::from(head.slots) {
        let at = HEAD_BYTES + index * u64::from(head.slot_bytes);
        // With the first bytes that it buffers, or once buffered.
        let peek = slot.len().min(SLOT_HEAD_BYTES + 8);
        let read = file.read_at(&mut slot[..peek], at).map_err(failed)?;
        let (Some(id), Some(word)) = (word_at(&slot[..read], 0), word_at(&slot[..read], 8)) else {
            damaged(Error::corruption(
                &path,
                at,
                "the write buffer ends too early: what was buffered behind is lost",
            ));
            break;
        };
        if word == 0 {
            if id == 0 && slot[SLOT_HEAD_BYTES..read].iter().any(|&byte| byte != 0) {
                let what = "a slot of the write buffer lost its head: what it buffered is lost";
                damaged(Error::corruption(&path, at, what));
            }
            continue;
        }
        let buffered = State::decode(word, id).filter(|state| state.len <= slot.len() - SLOT_HEAD_BYTES);
        let Some(state) = buffered else {
            damaged(Error::corruption(
                &path,
                at,
                "a slot of the write buffer is damaged: what it buffered is lost",
            ));
            continue;
        };
        if state.len == 0 {
            continue;
        }
        let body = &mut slot[SLOT_HEAD_BYTES..][..state.len];
        let read = file.read_at(body, at + SLOT_HEAD_BYTES as u64).map_err(failed)?;
        if read < state.len {
            damaged(Error::corruption(
                &path,
                at,
                "the write buffer ends within a slot: what it buffered there is lost",
            ));
        }
        visit(&SlotContent { at, store, epoch, log: id, base: state.base, bytes: &body[..read] }, damaged)?;
    }
    Ok(())
}

fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// The content of a slot.
pub struct SlotContent<'a> {
    /// Offset of the slot in the file.
    at: u64,
    store: u128,
    epoch: u64,
    /// The number of the log that it belongs to, and the offset there.
    pub log: u64,
    pub base: u64,
    bytes: &'a [u8],
}

impl SlotContent<'_> {
    /// The bytes that were written for exactly this place in the log with this header, up to the
    /// last whole record. Damage before that is left in: in the log it is damage as any other,
    /// proved by the records after it.
    pub fn whole(&self, header: &FileHeader, dir: &Path, damaged: &mut dyn FnMut(Error)) -> &[u8] {
        let (extent, damage) = valid_extent(header, self.base, self.bytes, |_, _| true);
        if let Some(whole) = damage {
            let path = dir.join(file_name(FileKind::Log, self.log));
            let what = format!("what was buffered for {} is damaged", path.display());
            let at = self.at + (SLOT_HEAD_BYTES + whole) as u64;
            damaged(Error::corruption(dir.join(WRITE_BUFFER_FILE), at, what));
        }
        &self.bytes[..extent]
    }

    /// Appends the bytes to their log; returns how many count.
    pub fn put(
        &self,
        vfs: &dyn Vfs,
        dir: &Path,
        header_of: HeaderOf<'_>,
        damaged: &mut dyn FnMut(Error),
    ) -> Result<u64> {
        let &Self { store, epoch, log, base, .. } = self;
        let path = dir.join(file_name(FileKind::Log, log));
        if vfs.metadata(&path).map_err(|e| Error::io(Attempt::LookAt, &path, e))?.is_none() {
            // The log was obsolete and has been removed.
            return Ok(0);
        }
        let mut ignored = |at: u64, what: &str| {
            damaged(Error::corruption(&path, at, format!("{what}, and what was buffered for it is lost")));
            Ok(0)
        };
        let file = vfs.open(&path, OpenMode::ReadWrite).map_err(|e| Error::io(Attempt::Open, &path, e))?;
        let header = match header_of(&*file, &path) {
            Ok(header) => header,
            Err(error) if error.is_corruption() => return ignored(0, "the log's header is damaged"),
            Err(error) => return Err(error),
        };
        if (header.store, header.file, header.epoch) != (store, log, epoch) {
            return ignored(16, "the log is of another store, number or epoch");
        }
        let file_bytes = file.len().map_err(|e| Error::io(Attempt::Measure, &path, e))?;
        if base < HEADER_BYTES || base > file_bytes {
            return ignored(file_bytes.min(base), "the log ends too early");
        }
        let whole = self.whole(&header, dir, damaged);
        append(&*file, whole, base).map_err(|e| Error::io(Attempt::Append, &path, e))?;
        Ok(whole.len() as u64)
    }
}

/// Writes `bytes` at `base`, except for leading bytes that are there already: the process may have
/// died while it drained them.
fn append(file: &dyn VfsFile, bytes: &[u8], base: u64) -> std::io::Result<()> {
    let mut there = vec![0; bytes.len()];
    let read = file.read_at(&mut there, base)?;
    let same = bytes.iter().zip(&there[..read]).take_while(|(a, b)| a == b).count();
    // Compared only up to the end of the file: no copy of the file is needed.
    if same < bytes.len() { file.write_at(&bytes[same..], base + same as u64) } else { Ok(()) }
}

//! Damages that may stay undetected, with the reasons. Every other damage is a finding if neither
//! opening nor `verify` reports it.

use super::harm::Harm;
use super::rules::ends_early;
use super::shapes::{End, Shape};
use crate::files::{Kind, names, put, read};
use crate::sealed::whole_records;
use crate::setup::STORE;
use cantle::vfs::MemVfs;

/// The reason why a damage may stay undetected; `None` if that is a finding. If two files were
/// damaged, each must have a reason.
pub fn excuse(shape: &Shape, harm: &Harm) -> Option<&'static str> {
    let damaged = harm.inflict(shape);
    let is_changed = |file: &&str| bytes(&damaged, file) != shape.bytes.get(*file).cloned();
    let changed: Vec<&str> = harm.files().into_iter().filter(is_changed).collect();
    // The store then assumes a loss of power, after which unsynced data may have any state.
    let is_doubtful =
        shape.end == End::Killed && changed.iter().any(|file| Kind::of(file) == Kind::PageCache);
    let mut excuses = changed.iter().map(|file| match Kind::of(file) {
        Kind::Log | Kind::Journal | Kind::WriteBuffer if is_doubtful => {
            Some("without PAGECACHE nobody knows that the power was not lost")
        }
        _ => of_file(shape, harm, file, &damaged),
    });
    let first = excuses.next()??;
    excuses.all(|excuse| excuse.is_some()).then_some(first)
}

fn bytes(vfs: &MemVfs, file: &str) -> Option<Vec<u8>> {
    names(vfs).iter().any(|name| name == file).then(|| read(vfs, file))
}

fn of_file(shape: &Shape, harm: &Harm, file: &str, damaged: &MemVfs) -> Option<&'static str> {
    match (Kind::of(file), shape.end) {
        // `docs/format/pagecache.md`: the block is overwritten in place, and never synced.
        (Kind::PageCache, _) => Some("the block PAGECACHE may be torn by a loss of power"),
        // `docs/format/write-buffer.md`.
        (Kind::WriteBuffer, End::Closed | End::Booted | End::PowerLost) => {
            Some("nobody reads a write buffer but after a kill")
        }
        (Kind::WriteBuffer, End::Killed) => match harm {
            Harm::Missing { .. } => Some("nothing tells of a write buffer but the write buffer"),
            Harm::Older { .. } => Some("a write buffer of an earlier moment is whole"),
            _ => {
                let after = bytes(damaged, file)?;
                let before = &shape.bytes[file];
                if !counts(before).any(|range| after.get(range.clone()) != Some(&before[range])) {
                    Some("of a write buffer only what is buffered counts")
                } else {
                    let is_zeros = matches!(harm, Harm::Zero { .. } | Harm::Swap { .. });
                    is_zeros.then_some("a slot of the write buffer that is all zeros was never used")
                }
            }
        },
        (Kind::Log, End::Killed) | (Kind::Journal | Kind::Manifest, End::Killed | End::PowerLost) => {
            let ends = ends_early(shape, harm, file)
                .then_some("the end of a file is damaged as a crash would leave it");
            let unproven = || {
                is_unproven(shape, file, damaged).then_some(
                    "no record says that the last checkpoint was durable: it looks as if it was being written",
                )
            };
            ends.or_else(unproven)
        }
        // By the length in `PAGECACHE` the manifest has only the last checkpoint.
        (Kind::Manifest, End::Booted | End::Closed) => ends_early(shape, harm, file)
            .then_some("what follows the last checkpoint of a closed manifest says nothing new"),
        (Kind::Log, End::PowerLost) if matches!(harm, Harm::Missing { .. }) => {
            Some("a log that no checkpoint knows: the journal has what it held")
        }
        (Kind::Log | Kind::Table, End::PowerLost) if is_left_over(shape, file, damaged) => Some(
            "nothing refers to the file: its removal was not durable yet, or the end of the manifest is gone",
        ),
        _ => None,
    }
}

/// True if an opening removes the file when it is intact, and the other damage is the same.
fn is_left_over(shape: &Shape, file: &str, damaged: &MemVfs) -> bool {
    let vfs = damaged.kill();
    put(&vfs, file, &shape.bytes[file]);
    let closed = shape.options(&vfs).open(STORE).and_then(|db| db.close());
    closed.is_ok() && names(&vfs).iter().all(|name| name != file)
}

/// True if the damage is in the last checkpoint of a manifest or after it, and power was lost.
fn is_unproven(shape: &Shape, file: &str, damaged: &MemVfs) -> bool {
    /// The tag of a checkpoint (`docs/format/manifest.md`).
    const CHECKPOINT: u8 = 6;
    if (Kind::of(file), shape.end) != (Kind::Manifest, End::PowerLost) {
        return false;
    }
    let (before, Some(after)) = (&shape.bytes[file], bytes(damaged, file)) else { return false };
    let records = whole_records(before);
    let mut checkpoints = records.iter().rev().filter(|record| before[record.payload] == CHECKPOINT);
    let kept = checkpoints.nth(1).map_or(0, |proven| proven.end);
    after.get(..kept) == Some(&before[..kept])
}

/// The ranges of a write buffer with valid data: its head, and for each slot the length that the
/// slot records.
fn counts(write_buffer: &[u8]) -> impl Iterator<Item = std::ops::Range<usize>> {
    let slot_bytes = write_buffer.get(32..36).and_then(|bytes| bytes.try_into().ok());
    let slot_bytes = slot_bytes.map_or(0, u32::from_le_bytes).max(16) as usize;
    let slots = (4096..write_buffer.len()).step_by(slot_bytes).filter_map(move |at| {
        let buffered = u16::from_le_bytes(write_buffer.get(at + 8..at + 10)?.try_into().ok()?);
        (buffered > 0).then(|| at..(at + 16 + usize::from(buffered)).min(write_buffer.len()))
    });
    std::iter::once(0..44.min(write_buffer.len())).chain(slots)
}

//! Errors that fit a damage: those that name a damaged file, and in it a block that was changed.

use super::harm::Harm;
use super::shapes::Shape;
use crate::files::{Kind, names, read};
use crate::setup::STORE;
use cantle::Error;
use cantle::vfs::MemVfs;
use std::path::Path;

/// A damage, and the ranges of files that it changed.
pub struct Blame<'a> {
    harm: &'a Harm,
    changes: Vec<Change>,
}

/// The blocks of a file from the first to the last changed one.
struct Change {
    file: String,
    from: u64,
    to: u64,
}

impl<'a> Blame<'a> {
    /// `damaged` is the store with the damage, which was not opened yet.
    pub fn of(shape: &Shape, harm: &'a Harm, damaged: &MemVfs) -> Self {
        let there = names(damaged);
        let changes = harm.files().into_iter().filter_map(|file| {
            let before = shape.bytes.get(file).map_or(&[][..], |bytes| bytes);
            let after = if there.iter().any(|name| name == file) { read(damaged, file) } else { Vec::new() };
            let differs = |(a, b): &(&u8, &u8)| a != b;
            let first = before.iter().zip(&after).position(|pair| differs(&pair));
            let (first, last) = if before.len() == after.len() {
                (first?, before.iter().zip(&after).rposition(|pair| differs(&pair))?)
            } else {
                (first.unwrap_or(before.len().min(after.len())), before.len().max(after.len()))
            };
            // A table that was truncated has its footer at its new end.
            let is_cut = Kind::of(file) == Kind::Table && after.len() < before.len();
            let footer = if is_cut { after.len().saturating_sub(32) as u64 } else { u64::MAX };
            let (first, last) = (first as u64, last as u64);
            let starts = shape.blocks.get(file).map_or(&[][..], |starts| starts);
            let from = starts.iter().rev().copied().find(|start| *start <= first).unwrap_or(0).min(footer);
            let to = starts.iter().copied().find(|start| *start > last).unwrap_or(u64::MAX);
            Some(Change { file: file.to_owned(), from, to })
        });
        Self { harm, changes: changes.collect() }
    }

    /// Returns an error unless the store's error is of damage and names a damaged place.
    pub fn fits(&self, error: &Error) -> Result<(), String> {
        let (path, offset) = match error {
            Error::Corruption { path, offset, .. } => (path, Some(*offset)),
            Error::UnsupportedFormat { path, .. } => (path, None),
            // A store without any files is reported as missing.
            Error::NotFound { path, .. } if matches!(self.harm, Harm::Missing { .. }) => (path, None),
            // The damage was found during a write.
            Error::ReadOnly { .. } => return Ok(()),
            other => return Err(format!("an error of another kind: {other}")),
        };
        let name = path.strip_prefix(STORE).unwrap_or(Path::new("?")).to_string_lossy();
        if !self.harm.concerns(&name) {
            // If the manifest is damaged, files may not match it.
            let is_manifest = self.harm.hits(Kind::Manifest);
            // Data that were buffered after the damage are appended to their log, with the damage.
            if self.harm.hits(Kind::WriteBuffer) && Kind::of(&name) == Kind::Log {
                return Ok(());
            }
            return if is_manifest { Ok(()) } else { Err(format!("laid at another's door: {error}")) };
        }
        let change = self.changes.iter().find(|change| change.file == name);
        match (change, offset) {
            (Some(Change { from, to, .. }), Some(offset)) if offset < *from || offset >= *to => {
                Err(format!("changed was something from {from} to {to}: {error}"))
            }
            _ => Ok(()),
        }
    }
}

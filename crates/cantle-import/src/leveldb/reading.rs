//! The state that the readers of all files share: their progress, and the damage that they found.

use crate::error::{Damage, Error, Result};

/// Number of damaged places that are reported one by one.
pub(crate) const LOST_TOLD_MAX: usize = 1000;

/// Told how far it is, at least once in each block of a log and for every few thousand entries; an
/// error ends the import.
pub(crate) type Progress<'a> = dyn FnMut(&Reading) -> Result<()> + 'a;

/// The state of one import's reading. Belongs to one thread.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Damage is recorded, and the bytes after it are read, instead of an error.
    skip_damaged: bool,
    pub lost: Vec<Damage>,
    pub lost_untold: u64,
    /// Logs whose last record was not written to its end: where it begins.
    pub torn: Vec<Damage>,
    /// Bytes of the source that were read.
    pub bytes: u64,
}

impl Reading {
    pub fn new(skip_damaged: bool) -> Self {
        Self { skip_damaged, ..Self::default() }
    }

    /// Ends the import, unless what is damaged is to be left out.
    pub fn damage(&mut self, damage: Damage) -> Result<()> {
        if !self.skip_damaged {
            return Err(Error::Damaged(Box::new(damage)));
        }
        if self.lost.len() < LOST_TOLD_MAX {
            self.lost.push(damage);
        } else {
            self.lost_untold += 1;
        }
        Ok(())
    }
}

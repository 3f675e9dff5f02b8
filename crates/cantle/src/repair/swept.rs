//! The entries of logs that range deletes in tables cover, whatever their versions.
//!
//! A merge joins neighbouring range deletes, and gives the joined one the lowest of their versions
//! (`run/carried.rs`): it covers what is older than the table, and the merged entries that it covered are gone. If
//! there is no manifest, a log that was merged may still be there, with an entry of a higher version. By the lineage of
//! the table it is known that the log is older.

use super::merge::RangeDelete;
use crate::types::order::KeyOrder;

/// The range deletes of each table that has a lineage, ascending, with the number of the newest log whose operations
/// the table has there.
#[derive(Default)]
pub(super) struct Swept(Vec<Vec<(u64, RangeDelete)>>);

impl Swept {
    pub fn add(&mut self, of_table: Vec<(u64, RangeDelete)>) {
        self.0.extend(Some(of_table).filter(|deletes| !deletes.is_empty()));
    }

    /// True if a table has a range delete with the key, and everything that the log says of the key.
    pub fn covers(&self, order: &KeyOrder, log: u64, key: &[u8]) -> bool {
        self.0.iter().any(|deletes| {
            let begun = deletes.partition_point(|(_, delete)| delete.begins_by(order, key));
            let last = begun.checked_sub(1).and_then(|last| deletes.get(last));
            last.is_some_and(|(age, delete)| log <= *age && !delete.ends_before(order, key))
        })
    }
}

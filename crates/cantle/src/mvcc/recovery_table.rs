//! Entries of earlier epochs that are invisible: versions above their last checkpoint (the paper's
//! recovery table, EvenDB §3.5), and batches that had not committed.
//!
//! Recovery replays and rewrites no log. It adds one row for the epoch that died, and readers of
//! files ask here if a record counts. A row is removed once no file created in its epoch is left:
//! dead records of an epoch are only in files of that epoch, since later rewrites omit them.
//!
//! Both tables are plain values: recovery makes them, a manifest edit contains their bytes, and
//! readers share them unchanged (thread safety by immutability).
//!
//! ```text
//!   recovery table   count, then for each row:  epoch, after, until          all varints
//!   dead batches     count, then for each row:  epoch, committed upto, gap count, then for each gap:
//!                                               first - end of the one before, last - first
//! ```

use crate::format::codec::{Decoder, Malformed, put_varint};

/// The versions strictly between `after` and `until` are dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadInterval {
    /// The epoch that wrote them.
    pub epoch: u64,
    /// Its last checkpointed version.
    pub after: u64,
    /// The first version of the next epoch.
    pub until: u64,
}

/// The dead versions of all epochs that still have files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryTable {
    /// Ascending by epoch, not empty, not overlapping.
    intervals: Vec<DeadInterval>,
}

impl RecoveryTable {
    /// Adds the row of an epoch that ended with `after` as its last checkpointed version; the next
    /// epoch begins at `until`. If the epoch had no checkpoint of its own, `after` may be that of
    /// an earlier epoch. Epochs are added in order.
    pub fn push(&mut self, epoch: u64, mut after: u64, until: u64) -> Result<(), Malformed> {
        if let Some(last) = self.intervals.last() {
            if epoch <= last.epoch || until <= last.until {
                return Err(Malformed("has epochs out of order"));
            }
            after = after.max(last.until - 1);
        }
        if after.checked_add(1).is_some_and(|first_dead| first_dead < until) {
            self.intervals.push(DeadInterval { epoch, after, until });
        }
        Ok(())
    }

    /// True if an entry with this version is to be ignored. One comparison for versions of this
    /// epoch.
    #[inline]
    pub fn is_dead(&self, version: u64) -> bool {
        self.intervals.last().is_some_and(|last| version < last.until) && self.is_in_interval(version)
    }

    fn is_in_interval(&self, version: u64) -> bool {
        let next = self.intervals.partition_point(|interval| interval.until <= version);
        self.intervals.get(next).is_some_and(|interval| version > interval.after)
    }

    /// True if a recovery since this epoch began has returned to a checkpoint. Then entries in the
    /// epoch's files that the checkpoint does not cover are dead, now and later.
    pub fn is_settled(&self, epoch: u64) -> bool {
        self.intervals.last().is_some_and(|last| last.epoch >= epoch)
    }

    /// Removes the rows of epochs without a file.
    pub fn prune(&mut self, mut epoch_has_files: impl FnMut(u64) -> bool) {
        self.intervals.retain(|interval| epoch_has_files(interval.epoch));
    }

    /// Appends the encoded table to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.intervals.len() as u64);
        for &DeadInterval { epoch, after, until } in &self.intervals {
            for number in [epoch, after, until] {
                put_varint(out, number);
            }
        }
    }

    /// Decodes the output of `encode`.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let mut table = Self::default();
        for _ in 0..decoder.varint()? {
            let [epoch, after, until] = [decoder.number()?, decoder.number()?, decoder.number()?];
            table.push(epoch, after, until)?;
            if table.intervals.last() != Some(&DeadInterval { epoch, after, until }) {
                return Err(Malformed("has rows that overlap or hide nothing"));
            }
        }
        Ok(table)
    }
}

/// Batch ids that never committed, from the first to the last of the gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The least id.
    pub first: u64,
    /// The greatest id.
    pub last: u64,
}

/// The spanning batches of one epoch that count: those up to `committed_upto` that are in no gap.
///
/// Batches commit nearly in order, so gaps are few and the row is small.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochBatches {
    /// The epoch whose process died.
    pub epoch: u64,
    /// The greatest id that committed; greater ones are dead. 0 if none did (ids begin at 1).
    pub committed_upto: u64,
    /// Dead ids below `committed_upto`: ascending, with live ids between any two gaps.
    pub gaps: Vec<Gap>,
}

impl EpochBatches {
    /// From the ids that the journal shows as committed, in any order. Those below `settled_below`
    /// are settled: a checkpoint found them committed, or never written.
    pub fn from_committed(epoch: u64, settled_below: u64, committed: impl IntoIterator<Item = u64>) -> Self {
        let mut committed: Vec<u64> = committed.into_iter().filter(|&id| id >= settled_below).collect();
        committed.sort_unstable();
        committed.dedup();
        let mut batches = Self { epoch, committed_upto: settled_below.saturating_sub(1), gaps: Vec::new() };
        for id in committed {
            if id - batches.committed_upto > 1 {
                batches.gaps.push(Gap { first: batches.committed_upto + 1, last: id - 1 });
            }
            batches.committed_upto = id;
        }
        batches
    }

    /// True if the records of this batch are to be ignored.
    pub fn is_dead(&self, batch: u64) -> bool {
        let next = self.gaps.partition_point(|gap| gap.last < batch);
        batch > self.committed_upto || self.gaps.get(next).is_some_and(|gap| gap.first <= batch)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.epoch);
        put_varint(out, self.committed_upto);
        put_varint(out, self.gaps.len() as u64);
        let mut end = 0;
        for gap in &self.gaps {
            put_varint(out, gap.first - end);
            put_varint(out, gap.last - gap.first);
            end = gap.last;
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (epoch, committed_upto) = (decoder.number()?, decoder.number()?);
        let (mut gaps, mut end): (Vec<Gap>, u64) = (Vec::new(), 0);
        for _ in 0..decoder.varint()? {
            let (distance, length) = (decoder.varint()?, decoder.varint()?);
            let first = end.checked_add(distance);
            let last = first.and_then(|first| first.checked_add(length));
            let (Some(first), Some(last)) = (first, last) else {
                return Err(Malformed("has a gap beyond the last batch"));
            };
            let touches_previous = distance < if gaps.is_empty() { 1 } else { 2 };
            if touches_previous || last >= committed_upto {
                return Err(Malformed("has a gap where none can be"));
            }
            gaps.push(Gap { first, last });
            end = last;
        }
        Ok(Self { epoch, committed_upto, gaps })
    }
}

/// The batches that died with earlier epochs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadBatches {
    /// Ascending by epoch.
    epochs: Vec<EpochBatches>,
}

impl DeadBatches {
    /// Adds the row of an epoch whose process died. Epochs are added in order.
    pub fn push(&mut self, batches: EpochBatches) -> Result<(), Malformed> {
        if self.epochs.last().is_some_and(|last| batches.epoch <= last.epoch) {
            return Err(Malformed("has epochs out of order"));
        }
        self.epochs.push(batches);
        Ok(())
    }

    /// True if the records of batch `batch` in a file of `epoch` are to be ignored. An epoch
    /// without a row is the current one or was closed properly: its batches are not dead.
    pub fn is_dead(&self, epoch: u64, batch: u64) -> bool {
        match self.epochs.binary_search_by_key(&epoch, |batches| batches.epoch) {
            Ok(row) => self.epochs[row].is_dead(batch),
            Err(_) => false,
        }
    }

    /// Removes the rows of epochs without a file.
    pub fn prune(&mut self, mut epoch_has_files: impl FnMut(u64) -> bool) {
        self.epochs.retain(|batches| epoch_has_files(batches.epoch));
    }

    /// Appends the encoded table to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.epochs.len() as u64);
        for batches in &self.epochs {
            batches.encode(out);
        }
    }

    /// Decodes the output of `encode`.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let mut table = Self::default();
        for _ in 0..decoder.varint()? {
            table.push(EpochBatches::decode(decoder)?)?;
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::codec::NUMBER_MAX;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    #[test]
    fn the_papers_example_hides_what_came_after_each_checkpoint() {
        let mut table = RecoveryTable::default();
        assert!(!table.is_dead(0) && !table.is_dead(u64::MAX));
        table.push(0, 1375, 2000).unwrap();
        table.push(1, 2956, 3000).unwrap();
        for (version, dead) in [
            (1375, false),
            (1376, true),
            (1999, true),
            (2000, false),
            (2956, false),
            (2957, true),
            (2999, true),
            (3000, false),
        ] {
            assert_eq!(table.is_dead(version), dead, "{version}");
        }
        assert!(table.is_settled(0) && table.is_settled(1) && !table.is_settled(2));
        assert!(!RecoveryTable::default().is_settled(0));
    }

    #[test]
    fn an_epoch_without_a_checkpoint_is_dead_from_its_first_version() {
        let mut table = RecoveryTable::default();
        table.push(0, 10, 20).unwrap();
        table.push(1, 10, 30).unwrap();
        assert_eq!(table.intervals[1], DeadInterval { epoch: 1, after: 19, until: 30 });
        assert!(table.is_dead(20) && table.is_dead(29) && !table.is_dead(30));
    }

    #[test]
    fn a_row_that_hides_nothing_is_not_kept_and_rows_must_ascend() {
        let mut table = RecoveryTable::default();
        table.push(0, 19, 20).unwrap();
        table.push(1, u64::MAX, 30).unwrap();
        assert!(table.intervals.is_empty());
        table.push(2, 30, 40).unwrap();
        assert!(table.push(2, 50, 60).is_err());
        assert!(table.push(3, 50, 40).is_err());
    }

    #[test]
    fn rows_go_with_the_last_file_of_their_epoch() {
        let mut table = RecoveryTable::default();
        let mut batches = DeadBatches::default();
        for epoch in 0..4 {
            table.push(epoch, epoch * 10 + 5, epoch * 10 + 10).unwrap();
            batches.push(EpochBatches::from_committed(epoch, 1, [1])).unwrap();
        }
        table.prune(|epoch| epoch % 2 == 1);
        batches.prune(|epoch| epoch % 2 == 1);
        assert_eq!(table.intervals.iter().map(|row| row.epoch).collect::<Vec<_>>(), [1, 3]);
        assert!(table.is_dead(16) && !table.is_dead(26));
        assert_eq!(batches.epochs.iter().map(|row| row.epoch).collect::<Vec<_>>(), [1, 3]);
        assert!(batches.is_dead(1, 2) && !batches.is_dead(2, 2));
    }

    #[test]
    fn batches_of_a_dead_process_count_only_if_they_committed() {
        let batches = EpochBatches::from_committed(7, 1, [7, 2, 3, 3]);
        assert_eq!(batches.gaps, [Gap { first: 1, last: 1 }, Gap { first: 4, last: 6 }]);
        let mut table = DeadBatches::default();
        table.push(batches.clone()).unwrap();
        assert!(table.push(batches).is_err());
        let dead: Vec<u64> = (1..10).filter(|&id| table.is_dead(7, id)).collect();
        assert_eq!(dead, [1, 4, 5, 6, 8, 9]);
        assert!(!table.is_dead(6, 1) && !table.is_dead(8, 1));
    }

    #[test]
    fn a_wild_batch_id_costs_one_gap() {
        let batches = EpochBatches::from_committed(0, 1, [1, NUMBER_MAX, NUMBER_MAX]);
        assert_eq!(batches.gaps.len(), 1);
        assert!(batches.is_dead(2) && !batches.is_dead(NUMBER_MAX));
        let mut table = DeadBatches::default();
        table.push(batches).unwrap();
        let mut bytes = Vec::new();
        table.encode(&mut bytes);
        assert_eq!(DeadBatches::decode(&mut Decoder::new(&bytes)), Ok(table));
    }

    fn tables() -> impl Strategy<Value = (RecoveryTable, DeadBatches)> {
        let rows = vec((1u64..5, 0u64..100, 0u64..100, btree_set(1u64..60, 0..20)), 0..6);
        rows.prop_map(|rows| {
            let (mut table, mut batches) = (RecoveryTable::default(), DeadBatches::default());
            let (mut epoch, mut first) = (0, 1);
            for (epochs, live, dead, committed) in rows {
                epoch += epochs;
                let until = first + live + dead + 1;
                table.push(epoch, first + live, until).unwrap();
                batches.push(EpochBatches::from_committed(epoch, 1, committed)).unwrap();
                first = until;
            }
            (table, batches)
        })
    }

    proptest! {
        #[test]
        fn every_version_and_batch_has_the_fate_that_its_row_gives_it(
            (table, batches) in tables(),
            version in 0u64..1500,
            epoch in 0u64..30,
            committed in btree_set(1u64..60, 0..20),
        ) {
            let expected = table.intervals.iter().any(|row| row.after < version && version < row.until);
            prop_assert_eq!(table.is_dead(version), expected);
            let row = batches.epochs.iter().find(|row| row.epoch == epoch);
            for id in 1..64 {
                prop_assert_eq!(batches.is_dead(epoch, id), row.is_some_and(|row| row.is_dead(id)));
            }
            let row = EpochBatches::from_committed(epoch, 1, committed.iter().copied());
            for id in 1..64 {
                prop_assert_eq!(row.is_dead(id), !committed.contains(&id));
            }
        }

        #[test]
        fn tables_round_trip_and_every_truncation_is_rejected((table, batches) in tables()) {
            let mut bytes = Vec::new();
            table.encode(&mut bytes);
            let table_bytes = bytes.len();
            batches.encode(&mut bytes);
            let mut decoder = Decoder::new(&bytes);
            prop_assert_eq!(RecoveryTable::decode(&mut decoder), Ok(table));
            prop_assert_eq!(DeadBatches::decode(&mut decoder), Ok(batches));
            prop_assert!(decoder.rest().is_empty());
            for end in 0..table_bytes {
                prop_assert!(RecoveryTable::decode(&mut Decoder::new(&bytes[..end])).is_err());
            }
            for end in table_bytes..bytes.len() {
                prop_assert!(DeadBatches::decode(&mut Decoder::new(&bytes[table_bytes..end])).is_err());
            }
        }

        #[test]
        fn hostile_bytes_do_not_panic_and_what_they_decode_to_encodes_to_itself(bytes in vec(any::<u8>(), 0..64)) {
            if let Ok(table) = RecoveryTable::decode(&mut Decoder::new(&bytes)) {
                let mut again = Vec::new();
                table.encode(&mut again);
                prop_assert_eq!(RecoveryTable::decode(&mut Decoder::new(&again)), Ok(table));
            }
            if let Ok(batches) = DeadBatches::decode(&mut Decoder::new(&bytes)) {
                for id in [0, 1, u64::MAX] {
                    batches.is_dead(0, id);
                }
                let mut again = Vec::new();
                batches.encode(&mut again);
                prop_assert_eq!(DeadBatches::decode(&mut Decoder::new(&again)), Ok(batches));
            }
        }
    }
}

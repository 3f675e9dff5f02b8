//! Tables that do not overlap, as one: a lane.
//!
//! Tables overlap in level 0 only, and where `RepairDB` put all of them there. Whatever their
//! levels, they are dealt out to as few lanes as they fit in, so that no more tables are open at
//! once than overlap at some key.

use super::entry::Entry;
use super::manifest::TableFile;
use super::reading::Reading;
use super::table::{Place, Table};
use crate::error::{Damage, Result};
use crate::leveldb::source::open_table;
use std::collections::{BinaryHeap, VecDeque};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct Lane {
    dir: PathBuf,
    waiting: VecDeque<TableFile>,
    open: Option<Table>,
    place: Place,
    /// True if the table's file stays open between two reads.
    stays_open: bool,
}

/// With more lanes than this, files are opened for each block: a process may have 1024 open, most
/// often.
const OPEN_MAX: usize = 256;

/// Deals tables out to lanes: each to one that has ended before the table begins, or to a new one.
pub(crate) fn lanes(dir: &Path, mut tables: Vec<TableFile>) -> Vec<Lane> {
    use std::cmp::Reverse;
    tables.sort_by(|a, b| (&a.smallest, a.number).cmp(&(&b.smallest, b.number)));
    let mut lanes: Vec<VecDeque<TableFile>> = Vec::new();
    // The lane that ends first is the first.
    let mut ends: BinaryHeap<Reverse<(Vec<u8>, usize)>> = BinaryHeap::new();
    for table in tables {
        let free = ends.peek().is_some_and(|Reverse((end, _))| *end < table.smallest);
        let lane = match if free { ends.pop() } else { None } {
            Some(Reverse((_, lane))) => lane,
            None => {
                lanes.push(VecDeque::new());
                lanes.len() - 1
            }
        };
        ends.push(Reverse((table.largest.clone(), lane)));
        lanes[lane].push_back(table);
    }
    let stays_open = lanes.len() <= OPEN_MAX;
    let lane =
        |waiting| Lane { dir: dir.to_path_buf(), waiting, open: None, place: Place::default(), stays_open };
    lanes.into_iter().map(lane).collect()
}

impl Lane {
    pub fn next(&mut self, reading: &mut Reading) -> Result<Option<Entry>> {
        loop {
            if let Some(table) = &mut self.open {
                if let Some(entry) = table.next(reading)? {
                    return Ok(Some(entry));
                }
                self.place = self.open.take().map(Table::into_place).unwrap_or_default();
            }
            let Some(known) = self.waiting.pop_front() else { return Ok(None) };
            match open_table(&self.dir, known.number)? {
                Ok(file) => {
                    self.open = Table::open(file, known, self.place.clone(), self.stays_open, reading)?;
                }
                Err(path) => {
                    let damage = Damage::new(path, 0, "the table is missing, and the manifest names it");
                    reading.damage(damage.of_keys(known.smallest, known.largest))?;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tables_of_a_lane_do_not_overlap_and_there_are_as_few_lanes_as_can_be(
            ranges in prop::collection::vec((0..100u8, 0..20u8), 0..40)
        ) {
            let tables: Vec<TableFile> = ranges.iter().enumerate().map(|(number, &(start, more))| TableFile {
                number: number as u64, bytes: 0, smallest: vec![start], largest: vec![start + more]
            }).collect();
            let lanes = lanes(Path::new("store"), tables.clone());
            for lane in &lanes {
                let tables: Vec<_> = lane.waiting.iter().collect();
                prop_assert!(tables.windows(2).all(|pair| pair[0].largest < pair[1].smallest));
            }
            prop_assert_eq!(lanes.iter().map(|lane| lane.waiting.len()).sum::<usize>(), tables.len());
            let overlap = (0..120u8).map(|key| {
                tables.iter().filter(|table| (table.smallest[0]..=table.largest[0]).contains(&key)).count()
            }).max().unwrap_or(0);
            prop_assert_eq!(lanes.len(), overlap);
        }
    }

    #[test]
    fn however_many_tables_overlap_few_files_are_open() {
        use crate::leveldb::merge::Merge;
        use crate::leveldb::table::tests::{Shape, write_table};
        const TABLES: u64 = OPEN_MAX as u64 + 50;
        let place = tempfile::tempdir().unwrap();
        let shape = Shape { entries_per_block: 2, interval: 1, method: 0 };
        let table = |number: u64| {
            let keys = [&b"a"[..], b"b", &number.to_be_bytes(), b"z"];
            let mut keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
            keys.sort();
            let entry = |key: Vec<u8>| Entry { key, sequence: number, value: Some(vec![number as u8]) };
            let entries: Vec<Entry> = keys.into_iter().map(entry).collect();
            let (bytes, known) = write_table(&entries, shape);
            std::fs::write(place.path().join(format!("{number:06}.ldb")), bytes).unwrap();
            TableFile { number, ..known }
        };
        let lanes = lanes(place.path(), (1..=TABLES).map(table).collect());
        assert_eq!(lanes.len() as u64, TABLES);
        let mut reading = Reading::new(false);
        let mut merge = Merge::new(lanes, Vec::new(), &mut reading).unwrap();
        let open = || {
            let files = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
            files
                .filter_map(|file| std::fs::read_link(file.path()).ok())
                .filter(|file| file.starts_with(place.path()))
                .count()
        };
        let mut pairs = 0;
        while let Some(entry) = merge.next(&mut reading).unwrap() {
            pairs += usize::from(entry.is_some());
            assert!(open() <= OPEN_MAX, "{} files are open", open());
        }
        assert_eq!(pairs as u64, TABLES + 3);
    }
}

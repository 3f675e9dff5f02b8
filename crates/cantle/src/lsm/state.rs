//! The state of a keyspace in the manifest: the logs and tables of level 0, and groups of tables.

use crate::format::codec::{Decoder, Malformed, put_varint};
use crate::format::header::FileKind;
use crate::manifest::{Area, AreaFile, LayoutState};
use crate::run::record::{FileRecord, decode_ids, encode_ids, optional_key, put_optional_key};
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A change of the files of a keyspace.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// A new log is above all others.
    Log { file: u64, epoch: u64 },
    /// A merge: these files of level 0 go, and these groups are replaced by others.
    Merge { logs: Vec<u64>, removed: Vec<u64>, added: Vec<GroupRecord> },
    /// A flush: tables take the place of this log in level 0. Without a log they are above all others: so a
    /// manifest that is written anew lists them.
    Flush { log: Option<u64>, tables: Vec<FileRecord> },
}

/// A file of level 0, which may have any key.
#[derive(Debug, Clone, PartialEq)]
pub enum Level0 {
    Log {
        file: u64,
        epoch: u64,
    },
    /// A generation that was flushed. In a box, as a keyspace that is idle has logs only.
    Table(Box<FileRecord>),
}

impl Level0 {
    pub fn file(&self) -> u64 {
        match self {
            Self::Log { file, .. } => *file,
            Self::Table(table) => table.file,
        }
    }

    /// The table, if it is one.
    pub fn table(&self) -> Option<&FileRecord> {
        match self {
            Self::Log { .. } => None,
            Self::Table(table) => Some(table),
        }
    }

    /// Its kind, its number and its epoch.
    fn named(&self) -> (FileKind, u64, u64) {
        match self {
            Self::Log { file, epoch } => (FileKind::Log, *file, *epoch),
            Self::Table(table) => (table.kind, table.file, table.epoch),
        }
    }
}

/// A group of tables of a level, and of logs that were written in key order: a guard. It ends where
/// the next group of its level begins.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupRecord {
    pub id: u64,
    pub level: u32,
    /// The number of its tree, if the level has several: a newer one has a higher number.
    pub tree: u64,
    /// The first and the last number of the trees of the level above that its tree takes up, while it does.
    pub takes: Option<(u64, u64)>,
    /// The smallest possible key; `None` for the first group of a tree.
    pub start: Option<Bytes>,
    /// Newest first.
    pub files: Vec<FileRecord>,
}

const LOG_TAG: u8 = 1;
const MERGE_TAG: u8 = 2;
const FLUSH_TAG: u8 = 3;
/// The number of no file: the first one has 1.
const NO_FILE: u64 = 0;
/// Maximum number of levels. Each has several times the data of the one before, at least twice as much.
pub const LEVELS_MAX: u32 = 31;
/// A level, a mark, and the number of a tree in one varint.
const TAKES: u64 = LEVELS_MAX as u64 + 1;
const TREE: u64 = 2 * TAKES;
/// The highest number of a tree.
const TREES_MAX: u64 = 1 << 56;

impl GroupRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.id);
        let takes = if self.takes.is_some() { TAKES } else { 0 };
        put_varint(out, self.tree * TREE + takes + u64::from(self.level));
        if let Some((first, last)) = self.takes {
            put_varint(out, first);
            put_varint(out, last);
        }
        put_optional_key(out, self.start.as_ref());
        put_varint(out, self.files.len() as u64);
        self.files.iter().for_each(|file| file.encode(out));
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let id = decoder.number()?;
        let place = decoder.varint()?;
        let (tree, level) = (place / TREE, (place % TAKES) as u32);
        if level == 0 {
            return Err(Malformed("names a level that cannot be"));
        }
        let takes = if place & TAKES > 0 { Some((decoder.varint()?, decoder.varint()?)) } else { None };
        if tree > TREES_MAX || takes.is_some_and(|(first, last)| first > last || last > TREES_MAX) {
            return Err(Malformed("names a tree that cannot be"));
        }
        let mut record = Self { id, level, tree, takes, start: optional_key(decoder)?, files: Vec::new() };
        for _ in 0..decoder.varint()? {
            record.files.push(FileRecord::decode(decoder)?);
        }
        Ok(record)
    }
}

impl Edit {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Log { file, epoch } => {
                out.push(LOG_TAG);
                put_varint(&mut out, *file);
                put_varint(&mut out, *epoch);
            }
            Self::Merge { logs, removed, added } => {
                out.push(MERGE_TAG);
                encode_ids(&mut out, logs);
                encode_ids(&mut out, removed);
                put_varint(&mut out, added.len() as u64);
                added.iter().for_each(|group| group.encode(&mut out));
            }
            Self::Flush { log, tables } => {
                out.push(FLUSH_TAG);
                put_varint(&mut out, log.unwrap_or(NO_FILE));
                put_varint(&mut out, tables.len() as u64);
                tables.iter().for_each(|table| table.encode(&mut out));
            }
        }
        out
    }

    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(payload);
        let edit = match decoder.u8()? {
            LOG_TAG => Self::Log { file: decoder.number()?, epoch: decoder.number()? },
            MERGE_TAG => {
                let (logs, removed) = (decode_ids(&mut decoder)?, decode_ids(&mut decoder)?);
                let mut added = Vec::new();
                for _ in 0..decoder.varint()? {
                    added.push(GroupRecord::decode(&mut decoder)?);
                }
                Self::Merge { logs, removed, added }
            }
            FLUSH_TAG => {
                let log = Some(decoder.number()?).filter(|log| *log != NO_FILE);
                let mut tables = Vec::new();
                for _ in 0..decoder.varint()? {
                    tables.push(flushed(FileRecord::decode(&mut decoder)?)?);
                }
                if log.is_none() && tables.is_empty() {
                    return Err(Malformed("names neither a log nor a table"));
                }
                Self::Flush { log, tables }
            }
            _ => return Err(Malformed("is of an unknown kind")),
        };
        decoder.finish()?;
        Ok(edit)
    }
}

/// A table of level 0: all of it counts for all keys.
fn flushed(table: FileRecord) -> Result<FileRecord, Malformed> {
    let FileRecord { kind, span: None, share_bytes: None, dropped: None, dropped_ranges: None, .. } = &table
    else {
        return Err(Malformed("has a part of a table in level 0"));
    };
    if *kind == FileKind::Table { Ok(table) } else { Err(Malformed("has a log in the place of a table")) }
}

/// The files according to the manifest.
#[derive(Debug, Default, PartialEq)]
pub struct State {
    /// Newest first.
    pub level0: Vec<Level0>,
    pub groups: BTreeMap<u64, GroupRecord>,
}

impl State {
    /// The same files, each once, in level 0, and an empty group. For a keyspace that was dropped: nothing of it is
    /// read any more, so its order does not matter.
    pub fn only_files(self) -> Self {
        let mut seen = HashSet::new();
        let files = self.groups.into_values().flat_map(|group| group.files);
        let once = files.filter(|file| seen.insert(file.file)).map(|file| match file.kind {
            FileKind::Table => {
                let whole = FileRecord { span: None, share_bytes: None, dropped_ranges: None, ..file };
                Level0::Table(whole.into())
            }
            _ => Level0::Log { file: file.file, epoch: file.epoch },
        });
        let level0 = self.level0.into_iter().chain(once).collect();
        let group = GroupRecord { id: 1, level: 1, ..GroupRecord::default() };
        Self { level0, groups: BTreeMap::from([(1, group)]) }
    }

    /// Puts a file into level 0. An idle keyspace has one log, and no room for more.
    fn insert(&mut self, place: usize, file: Level0) -> Result<(), Malformed> {
        if matches!(file, Level0::Table(_)) && self.level0.iter().any(|other| other.file() == file.file()) {
            return Err(Malformed("adds a table that is there"));
        }
        if self.level0.len() == self.level0.capacity() {
            self.level0.reserve_exact(self.level0.len().max(1));
        }
        self.level0.insert(place, file);
        Ok(())
    }

    /// The groups in the order of levels, of trees, the newest first, and of keys. An error if the groups of a tree
    /// do not cover all keys, each once.
    pub fn sorted<'a>(
        order: &KeyOrder,
        groups: impl Iterator<Item = &'a GroupRecord>,
    ) -> Result<Vec<(&'a GroupRecord, Span)>, &'static str> {
        let mut groups: Vec<&GroupRecord> = groups.collect();
        let compare = |a: &Option<Bytes>, b: &Option<Bytes>| match (a, b) {
            (Some(a), Some(b)) => order.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        order.sort_by(&mut groups, |a, b| {
            a.level.cmp(&b.level).then(b.tree.cmp(&a.tree)).then_with(|| compare(&a.start, &b.start))
        });
        let is_beside = |a: &GroupRecord, b: &GroupRecord| (a.level, a.tree) == (b.level, b.tree);
        let mut sorted = Vec::with_capacity(groups.len());
        for (number, group) in groups.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| groups[before]);
            let is_first = before.is_none_or(|before| !is_beside(before, group));
            if is_first != group.start.is_none() {
                return Err("a level does not begin with a group for the smallest keys");
            }
            if before
                .is_some_and(|before| !is_first && compare(&before.start, &group.start) != Ordering::Less)
            {
                return Err("two groups of a level begin at the same key");
            }
            let next = groups.get(number + 1).filter(|next| is_beside(next, group));
            let span = Span { start: group.start.clone(), end: next.and_then(|next| next.start.clone()) };
            sorted.push((*group, span));
        }
        Ok(sorted)
    }
}

impl LayoutState for State {
    fn apply(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        match Edit::decode(payload)? {
            Edit::Log { file, epoch } => self.insert(0, Level0::Log { file, epoch })?,
            Edit::Flush { log, tables } => {
                let place = match log {
                    None => 0,
                    Some(log) => {
                        let is_log = |file: &Level0| matches!(file, Level0::Log { file, .. } if *file == log);
                        let place = self.level0.iter().position(is_log);
                        let place = place.ok_or(Malformed("flushes an unknown log"))?;
                        self.level0.remove(place);
                        place
                    }
                };
                for (number, table) in tables.into_iter().enumerate() {
                    self.insert(place + number, Level0::Table(table.into()))?;
                }
            }
            Edit::Merge { logs, removed, added } => {
                for file in logs {
                    let place = self.level0.iter().position(|level0| level0.file() == file);
                    self.level0.remove(place.ok_or(Malformed("names an unknown file of level 0"))?);
                }
                for id in removed {
                    self.groups.remove(&id).ok_or(Malformed("names an unknown group"))?;
                }
                for group in added {
                    if self.groups.insert(group.id, group).is_some() {
                        return Err(Malformed("adds a group that is there"));
                    }
                }
            }
        }
        Ok(())
    }

    fn resolve(&mut self, dead: &dyn Fn(u64, u64) -> bool) {
        for file in self.groups.values_mut().flat_map(|group| &mut group.files) {
            file.resolve(dead);
        }
    }

    fn dump(&self, emit: &mut dyn FnMut(Vec<u8>)) {
        for file in self.level0.iter().rev() {
            let edit = match file {
                Level0::Log { file, epoch } => Edit::Log { file: *file, epoch: *epoch },
                Level0::Table(table) => Edit::Flush { log: None, tables: vec![(**table).clone()] },
            };
            emit(edit.encode());
        }
        for group in self.groups.values() {
            let edit = Edit::Merge { logs: Vec::new(), removed: Vec::new(), added: vec![group.clone()] };
            emit(edit.encode());
        }
    }

    fn files(&self, visit: &mut dyn FnMut(FileKind, u64, u64)) {
        for (kind, file, epoch) in self.level0.iter().map(Level0::named) {
            visit(kind, file, epoch);
        }
        let in_groups = || self.groups.values().flat_map(|group| &group.files);
        for file in in_groups() {
            visit(file.kind, file.file, file.epoch);
        }
        // Logs that many tables refer to come once.
        let referred =
            in_groups().chain(self.level0.iter().filter_map(Level0::table)).flat_map(|file| &file.referred);
        canary!(REFERRED_LOG_UNNAMED => return);
        for (file, epoch) in referred.map(|log| (log.file, log.epoch)).collect::<BTreeSet<_>>() {
            visit(FileKind::Log, file, epoch);
        }
    }

    /// An area for each start of a group.
    fn areas(&self, order: &KeyOrder) -> Result<Vec<Area>, Malformed> {
        let groups = Self::sorted(order, self.groups.values()).map_err(Malformed)?;
        let mut starts: Vec<Bytes> = groups.iter().filter_map(|(group, _)| group.start.clone()).collect();
        order.sort_by(&mut starts, |a, b| order.compare(a, b));
        starts.dedup_by(|a, b| order.compare(a, b) == Ordering::Equal);
        let bounds: Vec<Option<Bytes>> =
            std::iter::once(None).chain(starts.into_iter().map(Some)).chain([None]).collect();
        let areas = bounds.windows(2).map(|ends| {
            let span = Span { start: ends[0].clone(), end: ends[1].clone() };
            let whole = |(kind, file, epoch)| AreaFile { kind, file, epoch, span: span.clone() };
            let mut files: Vec<AreaFile> = self.level0.iter().map(Level0::named).map(whole).collect();
            for (group, group_span) in &groups {
                let Some(within) = group_span.intersect(order, &span) else { continue };
                for file in group.files.iter().filter(|file| file.dropped.is_none()) {
                    let counts = match &file.span {
                        Some(own) => own.intersect(order, &within),
                        None => Some(within.clone()),
                    };
                    files.extend(counts.map(|span| AreaFile {
                        kind: file.kind,
                        file: file.file,
                        epoch: file.epoch,
                        span,
                    }));
                }
            }
            Area { span, files }
        });
        Ok(areas.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(id: u64, level: u32, start: Option<&'static str>, files: &[u64]) -> GroupRecord {
        let table = |&file: &u64| FileRecord { kind: FileKind::Table, bytes: 10, ..FileRecord::log(file, 1) };
        GroupRecord {
            id,
            level,
            tree: 0,
            takes: None,
            start: start.map(|start| Bytes::from_static(start.as_bytes())),
            files: files.iter().map(table).collect(),
        }
    }

    fn apply(state: &mut State, edit: &Edit) -> Result<(), Malformed> {
        assert_eq!(Edit::decode(&edit.encode()).as_ref(), Ok(edit));
        state.apply(&edit.encode())
    }

    #[test]
    fn edits_lead_to_the_state_that_they_are_dumped_from() {
        let mut state = State::default();
        let added = vec![group(1, 1, None, &[7, 5]), group(2, 1, Some("m"), &[6])];
        for edit in [
            Edit::Log { file: 1, epoch: 1 },
            Edit::Log { file: 2, epoch: 1 },
            Edit::Log { file: 3, epoch: 2 },
            Edit::Merge { logs: vec![1, 2], removed: vec![], added },
            Edit::Merge { logs: vec![], removed: vec![2], added: vec![group(3, 1, Some("m"), &[8])] },
        ] {
            apply(&mut state, &edit).unwrap();
        }
        assert_eq!(state.level0, [Level0::Log { file: 3, epoch: 2 }]);
        assert_eq!(state.groups.keys().copied().collect::<Vec<_>>(), [1, 3]);
        let mut again = State::default();
        state.dump(&mut |payload| again.apply(&payload).unwrap());
        assert_eq!(again, state);
    }

    #[test]
    fn edits_that_do_not_fit_are_refused() {
        let mut state = State::default();
        let merge = |logs: &[u64], removed: &[u64], added| Edit::Merge {
            logs: logs.to_vec(),
            removed: removed.to_vec(),
            added,
        };
        apply(&mut state, &merge(&[], &[], vec![group(1, 1, None, &[])])).unwrap();
        assert!(apply(&mut state, &merge(&[4], &[], vec![])).is_err());
        assert!(apply(&mut state, &merge(&[], &[4], vec![])).is_err());
        assert!(apply(&mut state, &merge(&[], &[], vec![group(1, 1, None, &[])])).is_err());
        for level in [0, LEVELS_MAX + 1] {
            let edit = merge(&[], &[], vec![group(9, level, None, &[])]);
            assert!(Edit::decode(&edit.encode()).is_err(), "level {level}");
        }
        for wrong in [&[][..], &[0], &[1, 1], &[2, 0, 0, 1], &[3], &[4]] {
            assert!(state.apply(wrong).is_err(), "{wrong:?}");
        }
    }

    fn table(file: u64) -> FileRecord {
        FileRecord { kind: FileKind::Table, bytes: 10, ..FileRecord::log(file, 1) }
    }

    fn files(state: &State) -> Vec<u64> {
        state.level0.iter().map(Level0::file).collect()
    }

    /// Newer logs and tables stay above it, and older ones below it.
    #[test]
    fn a_flushed_table_takes_the_place_of_its_log() {
        let mut state = State::default();
        let flush =
            |log, tables: &[u64]| Edit::Flush { log, tables: tables.iter().map(|&id| table(id)).collect() };
        for file in 1..=4 {
            apply(&mut state, &Edit::Log { file, epoch: 1 }).unwrap();
        }
        apply(&mut state, &flush(Some(2), &[7])).unwrap();
        assert_eq!(files(&state), [4, 3, 7, 1]);
        apply(&mut state, &flush(Some(3), &[9, 8])).unwrap();
        assert_eq!(files(&state), [4, 9, 8, 7, 1]);
        let mut again = State::default();
        state.dump(&mut |payload| again.apply(&payload).unwrap());
        assert_eq!(again, state);
        let mut seen = Vec::new();
        state.files(&mut |kind, file, _| seen.push((kind == FileKind::Table, file)));
        assert_eq!(seen, [(false, 4), (true, 9), (true, 8), (true, 7), (false, 1)]);
        // Nothing of the log was kept.
        apply(&mut state, &flush(Some(4), &[])).unwrap();
        // A merge takes both.
        apply(
            &mut state,
            &Edit::Merge { logs: vec![1, 8], removed: vec![], added: vec![group(1, 1, None, &[11])] },
        )
        .unwrap();
        assert_eq!(files(&state), [9, 7]);
        let areas = state.areas(&KeyOrder::Bytewise).unwrap();
        assert_eq!(areas[0].files.iter().map(|file| file.file).collect::<Vec<_>>(), [9, 7, 11]);
        assert!(areas[0].files.iter().all(|file| file.kind == FileKind::Table));
        assert_eq!(files(&state.only_files()), [9, 7, 11]);
    }

    #[test]
    fn a_flush_that_does_not_fit_is_refused() {
        let mut state = State::default();
        apply(&mut state, &Edit::Log { file: 1, epoch: 1 }).unwrap();
        apply(&mut state, &Edit::Log { file: 2, epoch: 1 }).unwrap();
        let flush = |log, tables: &[FileRecord]| Edit::Flush { log, tables: tables.to_vec() };
        apply(&mut state, &flush(Some(1), &[table(5)])).unwrap();
        for (edit, why) in [
            (flush(Some(1), &[table(6)]), "was flushed before"),
            (flush(Some(5), &[table(6)]), "is a table"),
            (flush(Some(9), &[table(6)]), "is not there"),
            (flush(Some(2), &[table(5)]), "the table is there"),
            (flush(None, &[table(7), table(7)]), "the same table twice"),
        ] {
            let mut other = State { level0: state.level0.clone(), ..State::default() };
            assert!(apply(&mut other, &edit).is_err(), "{why}");
        }
        let span = Some(Span { start: Some("a".into()), end: None });
        for (record, why) in [
            (FileRecord::log(6, 1), "a log"),
            (FileRecord { span, ..table(6) }, "a part of the keys"),
            (FileRecord { share_bytes: Some(5), ..table(6) }, "a share"),
            (FileRecord { dropped: Some((1, 0)), ..table(6) }, "a table that was dropped"),
        ] {
            assert!(Edit::decode(&flush(Some(2), &[record]).encode()).is_err(), "{why}");
        }
        assert!(Edit::decode(&flush(None, &[]).encode()).is_err(), "nothing");
        let whole = flush(Some(2), &[table(6), FileRecord { has_deleted: true, ..table(7) }]).encode();
        assert!(Edit::decode(&whole).is_ok());
        for end in 0..whole.len() {
            assert!(Edit::decode(&whole[..end]).is_err(), "{end} bytes");
        }
        assert!(Edit::decode(&[&whole[..], &[0]].concat()).is_err(), "more than an edit");
        // Numbers that cannot be, and a count of tables that are not there.
        for wrong in
            [&[3, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1][..], &[3, 1, 1, 255], &[3, 2, 1, 1, 0]]
        {
            assert!(Edit::decode(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn groups_that_do_not_cover_the_keys_once_are_refused() {
        let sorted = |groups: &[GroupRecord]| {
            State::sorted(&KeyOrder::Bytewise, groups.iter())
                .map(|sorted| sorted.iter().map(|(group, _)| group.id).collect::<Vec<_>>())
        };
        let (a, b, c) = (group(1, 1, None, &[]), group(2, 1, Some("m"), &[]), group(3, 2, None, &[]));
        assert_eq!(sorted(&[c.clone(), b.clone(), a.clone()]), Ok(vec![1, 2, 3]));
        assert!(sorted(std::slice::from_ref(&b)).is_err());
        assert!(sorted(&[a.clone(), group(4, 1, None, &[])]).is_err());
        assert!(sorted(&[a, b, group(4, 1, Some("m"), &[])]).is_err());
    }

    #[test]
    fn areas_name_the_files_of_each_key_newest_first() {
        let mut state = State::default();
        for edit in [
            Edit::Log { file: 1, epoch: 1 },
            Edit::Log { file: 2, epoch: 1 },
            Edit::Merge {
                logs: vec![],
                removed: vec![],
                added: vec![
                    group(1, 1, None, &[11]),
                    group(2, 2, None, &[21]),
                    group(3, 2, Some("m"), &[32, 31]),
                ],
            },
        ] {
            apply(&mut state, &edit).unwrap();
        }
        let areas = state.areas(&KeyOrder::Bytewise).unwrap();
        let found: Vec<_> = areas
            .iter()
            .map(|area| {
                (area.span.start.clone(), area.files.iter().map(|file| file.file).collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(found, [(None, vec![2, 1, 11, 21]), (Some("m".into()), vec![2, 1, 11, 32, 31])]);
    }
}

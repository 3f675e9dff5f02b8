//! The state of a keyspace in the manifest: its logs, and groups of tables.

use crate::format::codec::{Decoder, Malformed, put_varint};
use crate::format::header::FileKind;
use crate::manifest::{Area, AreaFile, LayoutState};
use crate::run::record::{FileRecord, decode_ids, encode_ids, optional_key, put_optional_key};
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

/// A change of the files of a keyspace.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// A new log is above all others.
    Log { file: u64, epoch: u64 },
    /// A merge: these logs go, and these groups are replaced by others.
    Merge { logs: Vec<u64>, removed: Vec<u64>, added: Vec<GroupRecord> },
}

/// A group of tables of a level, and of logs that were written in key order: a guard. It ends where
/// the next group of its level begins.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupRecord {
    pub id: u64,
    pub level: u32,
    /// The smallest possible key; `None` for the first group of a level.
    pub start: Option<Bytes>,
    /// Newest first.
    pub files: Vec<FileRecord>,
}

const LOG_TAG: u8 = 1;
const MERGE_TAG: u8 = 2;
/// Maximum number of levels. Each is several times the one before, so a store of 10 TB has fewer.
pub const LEVELS_MAX: u32 = 12;

impl GroupRecord {
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.id);
        put_varint(out, self.level.into());
        put_optional_key(out, self.start.as_ref());
        put_varint(out, self.files.len() as u64);
        self.files.iter().for_each(|file| file.encode(out));
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let id = decoder.number()?;
        let level = u32::try_from(decoder.varint()?).ok().filter(|level| (1..=LEVELS_MAX).contains(level));
        let level = level.ok_or(Malformed("names a level that cannot be"))?;
        let mut record = Self { id, level, start: optional_key(decoder)?, files: Vec::new() };
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
            _ => return Err(Malformed("is of an unknown kind")),
        };
        decoder.finish()?;
        Ok(edit)
    }
}

/// The logs and groups according to the manifest.
#[derive(Debug, Default, PartialEq)]
pub struct State {
    /// File numbers and epochs, newest first.
    pub logs: Vec<(u64, u64)>,
    pub groups: BTreeMap<u64, GroupRecord>,
}

impl State {
    /// The same files, each once, in one group. For a keyspace that was dropped: nothing of it is
    /// read any more, so its order does not matter.
    pub fn only_files(self) -> Self {
        let mut seen = HashSet::new();
        let files = self.groups.into_values().flat_map(|group| group.files);
        let once = files.filter(|file| seen.insert(file.file));
        let files = once.map(|file| FileRecord { span: None, share_bytes: None, ..file }).collect();
        let group = GroupRecord { id: 1, level: 1, start: None, files };
        Self { logs: self.logs, groups: BTreeMap::from([(1, group)]) }
    }

    /// The groups in the order of levels and keys. An error if the groups of a level do not cover
    /// all keys, each once.
    pub fn sorted<'a>(
        order: &KeyOrder,
        groups: impl Iterator<Item = &'a GroupRecord>,
    ) -> Result<Vec<(&'a GroupRecord, Span)>, &'static str> {
        let mut groups: Vec<&GroupRecord> = groups.collect();
        let compare = |a: &Option<Bytes>, b: &Option<Bytes>| match (a, b) {
            (Some(a), Some(b)) => order.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        order.sort_by(&mut groups, |a, b| a.level.cmp(&b.level).then_with(|| compare(&a.start, &b.start)));
        let mut sorted = Vec::with_capacity(groups.len());
        for (number, group) in groups.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| groups[before]);
            let is_first = before.is_none_or(|before| before.level != group.level);
            if is_first != group.start.is_none() {
                return Err("a level does not begin with a group for the smallest keys");
            }
            if before
                .is_some_and(|before| !is_first && compare(&before.start, &group.start) != Ordering::Less)
            {
                return Err("two groups of a level begin at the same key");
            }
            let next = groups.get(number + 1).filter(|next| next.level == group.level);
            let span = Span { start: group.start.clone(), end: next.and_then(|next| next.start.clone()) };
            sorted.push((*group, span));
        }
        Ok(sorted)
    }
}

impl LayoutState for State {
    fn apply(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        match Edit::decode(payload)? {
            Edit::Log { file, epoch } => self.logs.insert(0, (file, epoch)),
            Edit::Merge { logs, removed, added } => {
                for file in logs {
                    let place = self.logs.iter().position(|log| log.0 == file);
                    self.logs.remove(place.ok_or(Malformed("names an unknown log"))?);
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
            file.dropped = file
                .dropped
                .filter(|&(version, batch)| !dead(version, batch))
                .map(|(version, _)| (version, 0));
        }
    }

    fn dump(&self, emit: &mut dyn FnMut(Vec<u8>)) {
        self.logs.iter().rev().for_each(|&(file, epoch)| emit(Edit::Log { file, epoch }.encode()));
        for group in self.groups.values() {
            let edit = Edit::Merge { logs: Vec::new(), removed: Vec::new(), added: vec![group.clone()] };
            emit(edit.encode());
        }
    }

    fn files(&self, visit: &mut dyn FnMut(FileKind, u64, u64)) {
        self.logs.iter().for_each(|&(file, epoch)| visit(FileKind::Log, file, epoch));
        for file in self.groups.values().flat_map(|group| &group.files) {
            visit(file.kind, file.file, file.epoch);
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
            let log = |&(file, epoch): &(u64, u64)| AreaFile {
                kind: FileKind::Log,
                file,
                epoch,
                span: span.clone(),
            };
            let mut files: Vec<AreaFile> = self.logs.iter().map(log).collect();
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
        assert_eq!(state.logs, [(3, 2)]);
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
        for wrong in [&[][..], &[0], &[1, 1], &[2, 0, 0, 1], &[3]] {
            assert!(state.apply(wrong).is_err(), "{wrong:?}");
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

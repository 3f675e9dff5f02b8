//! The part that layouts over the engine have of their own: the place of tables, and the choice of
//! merges. Pure functions from state to choice, so that tests compare them with golden text.

use super::busy::{Busy, Claim};
use super::hashed::{Chosen, HashedGuards};
use super::middle::Half;
use super::state::GroupRecord;
use crate::run::dropped_ranges::DroppedRanges;
use crate::run::record::FileRecord;
use crate::run::retain::Bottom;
use crate::run::run::Run;
use crate::run::writer::OutputTable;
use crate::sync::Arc;
use crate::table::DeletedRange;
use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::ops::{Range, RangeInclusive};

/// The places of a keyspace's tables. A shape is immutable and replaced as a whole. Two shapes share
/// the parts that are equal.
pub trait Shape: Sized + Send + Sync + 'static {
    /// The shape of these groups. An error says why no keyspace can have them. `run` makes the run
    /// of a file in an area.
    fn open(
        order: &KeyOrder,
        groups: Vec<GroupRecord>,
        run: &mut dyn FnMut(&FileRecord, &Span) -> Run,
    ) -> Result<Self, &'static str>;
    /// The runs that may hold `key`, newest first.
    fn runs_at<'a>(&'a self, order: &'a KeyOrder, key: &'a [u8]) -> impl Iterator<Item = &'a Run>;
    /// The widest area around `key` in which the runs do not depend on the key; the first area if
    /// that is `None`.
    fn stretch_at(&self, order: &KeyOrder, key: Option<&[u8]>) -> Stretch;
    /// The same for the greatest keys below `key`; the last area if that is `None`.
    fn stretch_before(&self, order: &KeyOrder, key: Option<&[u8]>) -> Stretch;
    /// The groups in the order of levels and keys.
    fn groups(&self) -> impl Iterator<Item = Group<'_>>;
    /// Number of runs that each group may have before some of them are merged, in the same order.
    fn runs_max(&self, rules: &Rules) -> impl Iterator<Item = usize>;
    /// Number of runs that a read of a key has to search at most, beside [`Rules::runs_max`]: writers are slowed
    /// down if it is much more.
    fn runs_most(&self, order: &KeyOrder) -> usize;
    /// True if everything in the group is older than the output of the piece, where they have keys in common.
    fn is_older(&self, group: &Group<'_>, piece: &Piece) -> bool;

    /// Charges reads of the area of `key` (the first area if that is `None`) with the entries that
    /// they passed over without showing them. Merging the tables there would save that.
    fn owe(&self, order: &KeyOrder, key: Option<&[u8]>, entries: u64);
    /// Notes that seeks without a write between them have become many, and that the last one was to the
    /// area of `key` (the first area if that is `None`).
    fn sought(&self, order: &KeyOrder, key: Option<&[u8]>);
    /// Bytes that the least merge may write.
    fn least_merge_bytes(&self, rules: &Rules) -> u64;
    /// The disk space of the groups.
    fn space(&self, rules: &Rules) -> Space;
    /// The next change of tables that is due and that running merges admit, if there is one.
    fn pick(&self, order: &KeyOrder, rules: &Rules, busy: &Busy) -> Option<Job>;
    /// The merge of logs into the shape.
    fn take_logs(&self, order: &KeyOrder, rules: &Rules, logs: &Logs, busy: &Busy) -> Job;
    /// The next merge that leaves fewer runs within the bounds; `None` if no key has more than one, or if
    /// all runs there are of files with this number or a higher one.
    fn sort_within(
        &self,
        order: &KeyOrder,
        rules: &Rules,
        bounds: &Bounds,
        upto: u64,
        busy: &Busy,
    ) -> Option<Job>;
    /// The changes that take up a sorted run which is newer than all of the shape's, and has no key
    /// in common with them, or few. `None` if it may have more, or if a running merge claims the place.
    fn take_apart(&self, order: &KeyOrder, run: &Run, busy: &Busy) -> Option<Apart>;
    /// The shape after a job, with the outcomes of its pieces. Other merges may have changed it since
    /// the job was chosen.
    fn after(&self, order: &KeyOrder, job: &Job, outcomes: &[Outcome]) -> Change<Self>;
    /// The first invariant of the layout that is broken, if one is.
    fn fault(&self, order: &KeyOrder) -> Option<String>;
}

/// Cost of merging an entry, in entries that a scan passes over. When reads have cost as much as a merge
/// would, it is due. PebblesDB §4.2 merges after ten seeks without a write.
const REWRITE_COST: u64 = 4;
/// Bytes whose merging costs as much as an entry that a scan passes over: 0.2 µs, at 200 MB/s.
const REWRITE_BYTES: u64 = 40;
/// Cost of a run to a seek, in entries that a scan passes over. An entry takes 0.2 µs, a run 2 µs if its
/// blocks are in memory, and some 80 µs if one is read from a device: a fifth of the blocks is assumed to be.
pub const RUN_COST: u64 = 50;

/// Cost of merging entries of this length in all, in entries that a scan passes over.
pub fn rewrite_cost(entries: u64, bytes: u64) -> u64 {
    REWRITE_COST.saturating_mul(entries).max(bytes / REWRITE_BYTES)
}

/// Sizes by which a layout chooses merges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Target length of the tables of the last level, in bytes.
    pub table_bytes: u64,
    /// A merge ends a table at the start of a group only if it has this length in bytes. Shorter ones are
    /// shared by neighbouring groups.
    pub fragment_bytes: u64,
    /// A range of a run that a range delete covers is noted as dropped if it has this length in bytes.
    pub dropped_range_bytes: u64,
    /// Number of runs of a group beyond which some of them are merged; the most that any group may have
    /// if they are tuned.
    pub runs_max: usize,
    /// True if the number of runs of each group follows from its own reads and writes.
    pub is_tuned: bool,
    /// False if every generation is flushed to a table.
    pub log_is_level_0: bool,
    /// Bytes of logs that are merged at once, usually.
    pub level0_bytes: u64,
    /// Number of tables that a merge of trees writes before its inputs go.
    pub cleaned: u64,
    /// Trees have one table each, and are merged whole.
    pub size_tiered: bool,
    /// Bytes of tables for each byte that is not garbage, beyond which tables are merged to free
    /// space.
    pub space_amplification: f64,
    /// Number of seeks without a write between them from which on the next one makes a merge
    /// (PebblesDB §4.2). `None` merges when reads have cost as much as a merge.
    pub seek_compaction: Option<u32>,
    /// A level is merged down when it has this part of the bytes of the next one, in percent
    /// (PebblesDB §4.2).
    pub level_percent: Option<u32>,
    /// Guards are chosen by the hash of keys; `None` chooses them from the data.
    pub hashed: Option<HashedGuards>,
    /// The oldest version that an open snapshot reads. An entry that only older snapshots saw can go.
    pub oldest_snapshot: u64,
    /// All obsolete files with a lower number have gone from the directory. A table with a lower
    /// number that holds nothing, and only says which files it replaces, can go.
    pub settled: u64,
    /// Bytes that a merge may write while the disk is full, or nearly: then merges free space wherever they
    /// can. `None` while space is no matter.
    pub disk_room: Option<u64>,
    /// The groups for which a merge on a full disk has just found no room, as the estimates may be wrong: a bit for each,
    /// by its number ([`Job::groups_mask`]). Others have their turn; some that have the same bit wait with them.
    pub without_room: u64,
    /// On a full disk, merges copy values only from logs of which more than this part is garbage: all that is left
    /// of these has room. A log goes when all merges that meet it have copied what is theirs. 0 otherwise.
    pub sparse_least: f64,
}

/// The disk space of tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    pub bytes: u64,
    /// The part of them that merges would free now, as far as it is known.
    pub stale_bytes: u64,
}

impl Space {
    pub fn live_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.stale_bytes)
    }

    /// True if there are more than this many bytes for each live one.
    pub fn exceeds(&self, amplification: f64) -> bool {
        self.bytes as f64 > amplification * self.live_bytes() as f64
    }
}

/// A value is long, and stays in its log, if its record is longer than this in bytes: reading it apart from its
/// key costs little beside its length. In tables that are short themselves it is a part of their length.
const LONGEST_INLINE: RangeInclusive<u64> = 1 << 10..=64 << 10;
const LONGEST_INLINE_FRACTION: u64 = 64;

/// The bit of a group in [`Rules::without_room`].
pub fn group_bit(id: u64) -> u64 {
    1 << (id % 64)
}

/// Bytes of tables of entries that take this many: they have an index and a filter besides.
pub fn with_overhead(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 8)
}

impl Rules {
    /// True if merges let their inputs go while they run.
    pub fn cleans_early(&self) -> bool {
        self.cleaned > 0 && !self.size_tiered
    }

    /// Length in bytes of the longest record of a log whose value merges always copy.
    pub fn longest_inline(&self) -> u32 {
        let (least, most) = (*LONGEST_INLINE.start(), *LONGEST_INLINE.end());
        (self.table_bytes / LONGEST_INLINE_FRACTION).clamp(least, most) as u32
    }

    /// The part of a log with long values that may be other data: half of what the space bound allows as garbage, so
    /// that other logs have more.
    pub fn rest_part(&self) -> f64 {
        (1.0 - 1.0 / self.space_amplification.max(1.0)) / 2.0
    }

    /// The part of such a log that may be garbage while the space bound is exceeded.
    pub fn sparse_part(&self) -> f64 {
        self.rest_part().max(self.sparse_least)
    }

    /// True if a merge of these runs may write what it has to: `written` bytes of each, and the values that it copies.
    /// Always while space is no matter.
    pub fn has_room(&self, runs: &[Run], written: impl Fn(&Run) -> u64) -> bool {
        self.disk_room.is_none_or(|room| {
            let bytes = |run: &Run| written(run) + run.copied_bytes(self.sparse_part());
            with_overhead(runs.iter().map(bytes).sum()) <= room
        })
    }
}

/// A group of tables: a guard of a level.
pub struct Group<'a> {
    pub id: u64,
    pub level: u32,
    /// The number of its tree, if the level has several.
    pub tree: u64,
    /// True if its tree takes up others.
    pub grows: bool,
    pub span: &'a Span,
    /// Newest first, or, if no two have a key in common, in any order.
    pub runs: &'a [Run],
    /// Sum of the entries that reads of the group owe ([`Shape::owe`]).
    pub debt: u64,
}

/// Number of runs that a read of one key has to search at most: some have no key in common. Tables that hold
/// nothing do not count: merging them with others saves nothing, and may leave such a table again.
pub fn depth(order: &KeyOrder, runs: &[Run]) -> usize {
    let full = || runs.iter().filter(|run| !run.is_empty_table());
    let reaching = |run: &Run| match &run.span.start {
        Some(start) => full().filter(|other| other.span.contains(order, start)).count(),
        None => full().filter(|other| other.span.start.is_none()).count(),
    };
    if runs.len() < 2 { runs.len() } else { full().map(reaching).max().unwrap_or(0) }
}

/// The logs of a merge.
pub struct Logs {
    pub bytes: u64,
}

/// Runs that hold the keys of an area, newest first.
pub struct Stretch {
    pub span: Span,
    pub runs: Vec<Run>,
}

/// A change of tables: merges, as pieces in the order of keys, or changes of the groups alone.
#[derive(Default)]
pub struct Job {
    pub pieces: Vec<Piece>,
    /// Changes that move no data, made after the pieces.
    pub moves: Vec<Move>,
    /// The groups that these change, if there are pieces.
    pub changed: Vec<u64>,
    /// True if it is done for space: it may use the reserve of a full disk.
    pub frees_space: bool,
    /// The group by which it is known if it finds no room; otherwise all that it takes runs of.
    pub window: Option<u64>,
}

/// A part of a merge, which is merged by itself.
pub struct Piece {
    pub span: Span,
    /// Tables, newest first. The logs of the job, if it has any, are merged above them.
    pub tables: Vec<Run>,
    /// The numbers of the groups that these tables are taken from, and the runs of each, counted
    /// from the oldest: newer ones may come meanwhile.
    pub taken: Vec<(u64, Range<usize>)>,
    pub bottom: Bottom,
    pub cuts: Cuts,
    /// The level that the output belongs to, and the number of its tree there.
    pub place: Place,
    /// The numbers of the groups that the output belongs to, in the order of keys. A table of the
    /// output comes above the runs that are left in its group. A group that the job divides is named
    /// for each of its parts.
    pub groups: Vec<u64>,
}

/// A tree of a level: all of it, unless a level has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    pub level: u32,
    pub tree: u64,
}

impl Place {
    /// Above all tables.
    pub const ABOVE: Self = Self { level: 1, tree: u64::MAX };
    /// Below all tables.
    pub const BELOW: Self = Self { level: u32::MAX, tree: 0 };

    /// A level of one tree.
    pub fn level(level: u32) -> Self {
        Self { level, tree: 0 }
    }

    /// True if what is here is newer than what is there, in keys that both have.
    pub fn is_newer_than(self, other: Self) -> bool {
        (self.level, std::cmp::Reverse(self.tree)) < (other.level, std::cmp::Reverse(other.tree))
    }
}

impl Job {
    pub fn of_pieces(pieces: Vec<Piece>) -> Self {
        Self { pieces, ..Self::default() }
    }

    pub fn of_moves(moves: Vec<Move>) -> Self {
        Self { moves, ..Self::default() }
    }

    /// True if it moves no data of tables.
    pub fn takes_nothing(&self) -> bool {
        self.pieces.iter().all(|piece| piece.tables.is_empty())
    }

    /// A bit for each group that it takes runs of, or for the one that it is known by.
    pub fn groups_mask(&self) -> u64 {
        if let Some(window) = self.window {
            return group_bit(window);
        }
        let taken = self.pieces.iter().flat_map(|piece| &piece.taken);
        taken.fold(0, |mask, (id, _)| mask | group_bit(*id))
    }

    /// The groups that it changes.
    pub fn claim(&self, logs: bool) -> Claim {
        let from = self.pieces.iter().flat_map(|piece| &piece.taken).map(|(id, _)| id);
        let into = self.pieces.iter().flat_map(|piece| &piece.groups);
        let [from, into] = [from.collect::<Vec<_>>(), into.collect()]
            .map(|groups| groups.into_iter().chain(&self.changed).copied().collect::<Vec<u64>>());
        Claim { from, into, logs }
    }
}

/// The places at which the output of a piece is cut into tables.
#[derive(Debug, Clone, PartialEq)]
pub enum Cuts {
    /// Near this length in bytes, where neighbouring keys share few leading bytes. The piece has one
    /// group, which becomes several if nothing else is left in it.
    Near(u64),
    /// At these keys, the starts of the piece's groups but the first. Ascending.
    At(Vec<Bytes>),
}

/// The changes that take up a run beside the others.
pub struct Apart {
    pub moves: Vec<Move>,
    /// The run's keys up to this one may lie in an older run, too.
    pub upto: Option<Bytes>,
}

/// A change of groups that moves no data.
#[derive(Clone)]
pub enum Move {
    /// A run that has keys of one group of this level comes above the other ones there.
    Adopt { level: u32, run: Run },
    /// The oldest run of the group, which has keys of one group of the next level only, comes above
    /// the other ones there.
    Sink { group: u64 },
    /// The group of this level that has the key is divided: a group begins at the key. A run with
    /// keys on both sides is taken to have this part of its bytes in the new group.
    Insert { level: u32, start: Bytes, share: f64 },
    /// The group that begins at the key in this level joins the one before it.
    Delete { level: u32, start: Bytes },
    /// A level without tables is put above the last one. Its groups begin at these keys.
    AddLevel { starts: Vec<Bytes> },
    /// The level above the last one goes. It has no tables.
    RemoveLevel,
    /// A run of the group that is dropped, and that nobody reads, goes. If the job has a piece, its output hands on
    /// what the run's table says of the files that it has replaced.
    Purge { group: u64, run: Run },
    /// The tables of the group that hold nothing, and have a lower number, go.
    Forget { group: u64, settled: u64 },
    /// The output, and the runs that are handed over, belong to this tree. It takes up trees of the level above,
    /// from the first of these numbers to the second, until nothing is left of them.
    Grow { place: Place, inputs: Option<(u64, u64)> },
    /// A run leaves its group for the tree that grows, as it is: the output has no key of it.
    Hand { group: u64, run: Run },
}

/// The outcome of a piece.
#[derive(Default)]
pub struct Outcome {
    pub placed: Vec<Placed>,
    /// The ranges that were deleted in the piece: older runs have nothing there that is newer.
    pub deleted: Vec<DeletedRange>,
    /// The older runs of which these ranges cover long parts.
    pub narrowed: Vec<Narrowed>,
    /// Keys of the piece that begin guards by their hash, ascending.
    pub chosen: Vec<Chosen>,
    /// The second halves of what was written into groups of the piece, by their index, where there is one.
    pub halves: Vec<(usize, Half)>,
}

/// A run as a merge found it, with the parts of it that are dropped after the merge.
pub struct Narrowed {
    pub file: u64,
    pub span: Arc<Span>,
    pub before: Option<Arc<DroppedRanges>>,
    pub after: Option<Arc<DroppedRanges>>,
}

impl Narrowed {
    /// True if it is about this run, and nobody has changed that meanwhile.
    pub fn is_of(&self, run: &Run) -> bool {
        run.file().id == self.file && *run.span == *self.span && run.dropped_ranges == self.before
    }
}

/// A table of a piece's output.
pub struct Placed {
    /// The index of its first group in the piece, and, if the cuts are given, its bytes in this and in
    /// each following group: several groups share a table if their parts are short. `None` has nothing
    /// in the table.
    pub from: usize,
    pub parts: Vec<Option<u64>>,
    pub output: OutputTable,
}

impl Placed {
    /// The part of the table, at most 1, that lies in a group of the piece; `None` if nothing does.
    pub fn part(&self, group: usize) -> Option<f64> {
        let bytes = (*self.parts.get(group.checked_sub(self.from)?)?)?;
        let all: u64 = self.parts.iter().flatten().sum();
        Some(if all == 0 { 1.0 } else { bytes as f64 / all as f64 })
    }
}

/// A shape after a job.
pub struct Change<S> {
    pub shape: S,
    /// The groups that go, by number, with their runs.
    pub removed: Vec<(u64, Vec<Run>)>,
    /// The groups that come, with their runs.
    pub added: Vec<(GroupRecord, Vec<Run>)>,
    /// The number of a group that the job names and that is gone, or has other runs than the job took, if there is
    /// one: data would be lost.
    pub missed: Option<u64>,
}

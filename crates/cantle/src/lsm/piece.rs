//! The output of one piece of a merge.

use super::hashed::Met;
use super::hidden::{HIDDEN_FACTOR, Sample};
use super::keyspace::Lsm;
use super::merge::{Trigger, Written};
use super::middle::Middle;
use super::shape::{Cuts, Outcome, Piece, Placed, Shape};
use super::view::View;
use crate::filter::monkey;
use crate::mvcc::Keep;
use crate::read_ahead::BytesRead;
use crate::run::carried::clip;
use crate::run::merged::Merged;
use crate::run::referred::{Copying, ReferredLogs};
use crate::run::retain::{Bottom, keep_versions};
use crate::run::run::Run;
use crate::run::stack::RunStack;
use crate::run::sync_together::SyncTogether;
use crate::run::writer::{KeptEntry, Output};
use crate::substrate::Grant;
use crate::sync::Arc;
use crate::table::{DeletedRange, Lineage};
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::ops::Range;

/// A target length that no table reaches: the cuts are given.
const UNCUT_BYTES: u64 = 1 << 60;

impl Piece {
    /// The keys of some of its groups; of all of them if the cuts are not given.
    pub fn span_of(&self, groups: Range<usize>) -> Span {
        let Cuts::At(starts) = &self.cuts else { return self.span.clone() };
        let start = groups.start.checked_sub(1).and_then(|before| starts.get(before));
        let end = groups.end.checked_sub(1).and_then(|last| starts.get(last));
        Span {
            start: start.or(self.span.start.as_ref()).cloned(),
            end: end.or(self.span.end.as_ref()).cloned(),
        }
    }
}

/// The output of a piece while it is written.
struct Writing<'a, S: Shape> {
    piece: &'a Piece,
    /// Lower bound of all versions, and the version below which snapshots may see replaced values.
    versions: (u64, u64),
    /// The range deletes that are carried on.
    deleted: Vec<DeletedRange>,
    /// The logs that values stand in.
    logs: Arc<ReferredLogs>,
    /// Bits per key of the output's filters.
    filter_bits: u32,
    lineage: Lineage,
    /// Bytes of the inputs.
    input_bytes: u64,
    synced: &'a SyncTogether,
    written: Written<'a, S>,
}

/// The parts of a merge that its pieces share.
pub(super) struct Pass<'a> {
    pub keep: &'a Keep,
    /// Counts the bytes that are read.
    pub read: &'a BytesRead,
    /// The long values that stay in their logs.
    pub copying: Copying,
    pub trigger: Trigger,
    /// The tables that are written. The caller syncs them before it names one.
    pub synced: &'a SyncTogether,
}

/// The entries of a piece that are kept.
struct Entries<'a, S: Shape> {
    lsm: &'a Lsm<S>,
    merged: Merged,
    keep: &'a Keep,
    bottom: Bottom,
    /// The starts of the groups but the first.
    starts: &'a [Bytes],
    trigger: Trigger,
    met: Met,
}

impl<S: Shape> Entries<'_, S> {
    /// The versions of the next key of a group, newest first; `None` at the group's end.
    fn next(&mut self, group: usize) -> Result<Option<Vec<KeptEntry>>> {
        let env = &self.lsm.env;
        while let Some(key) = self.merged.cursor.entry().map(|entry| Bytes::copy_from_slice(entry.key)) {
            if self.starts.get(group).is_some_and(|next| env.order.compare(&key, next).is_ge()) {
                break;
            }
            self.lsm.check_wanted(self.trigger)?;
            let kept = keep_versions(env, &mut self.merged, &key, self.keep, u64::MAX, self.bottom)?;
            if let Some(newest) = kept.first() {
                if self.met.is_on() && newest.kind.is_put() {
                    self.met.meet(&newest.key);
                }
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }
}

impl<S: Shape> Lsm<S> {
    /// Merges one piece.
    pub(super) fn merge_piece(
        &self,
        (view, piece): (&View<S>, &Piece),
        (stack, lineage): (&RunStack, &Lineage),
        Pass { keep, read, copying, trigger, synced }: Pass<'_>,
        grant: &mut Grant<'_>,
    ) -> Result<Outcome> {
        let env = &self.env;
        let mut merged = Merged::needed(env, stack, (read, copying), &keep.versions)?;
        let deleted = match piece.bottom {
            Bottom::Deeper => merged.carried(keep),
            // Nothing is left that they could cover.
            Bottom::Reached => Vec::new(),
        };
        canary!(DELETES_NOT_FLUSHED => let deleted = if piece.groups.is_empty() { Vec::new() } else { deleted });
        let mut writing = Writing {
            piece,
            versions: (self.base_version(stack)?, keep.versions.last().map_or(0, |newest| newest + 1)),
            deleted,
            logs: merged.referred_logs(),
            filter_bits: if env.options().filters { filter_bits(&env.order, view, piece, stack) } else { 0 },
            lineage: lineage.clone(),
            input_bytes: stack.files.iter().map(Run::bytes).sum(),
            synced,
            written: Written { lsm: self, pieces: vec![Outcome::default()], logs: Vec::new() },
        };
        let (target_bytes, starts) = match &piece.cuts {
            Cuts::Near(bytes) => (*bytes, &[][..]),
            Cuts::At(starts) => (UNCUT_BYTES, &starts[..]),
        };
        merged.cursor.seek_to_first()?;
        let levels = view.shape.groups().map(|group| group.level).max().unwrap_or(0);
        // Groups of other levels, and those that hashes choose, are not divided in their middle.
        let is_last = |id: &u64| view.shape.groups().any(|group| group.id == *id && group.level == levels);
        let has_middles = self.limits().rules.hashed.is_none() && piece.groups.first().is_some_and(is_last);
        let met = Met::new(self.limits().rules.hashed, levels);
        let mut entries = Entries { lsm: self, merged, keep, bottom: piece.bottom, starts, trigger, met };
        let mut sample = Sample::of(&env.order, view, piece, &self.jobs.merging.unsampled);
        let fragment_bytes = self.limits().rules.fragment_bytes;
        let groups = starts.len() + 1;
        let mut halves = Vec::new();
        // The first group of those before that have no entries.
        let (mut bare, mut group) = (0, 0);
        while group < groups {
            let Some(first) = entries.next(group)? else {
                group += 1;
                continue;
            };
            writing.write_bare(bare..group, grant)?;
            let mut fragment = Fragment { from: group, parts: Vec::new() };
            let mut output = writing.begin(group..group + 1, target_bytes, grant);
            let (mut next, mut hidden_bytes) = (Some(first), 0u64);
            while let Some(first) = next.take() {
                let before = output.written_bytes();
                let (mut kept, mut middle) = (Some(first), has_middles.then(Middle::new));
                while let Some(versions) = kept {
                    if let Some(middle) = &mut middle {
                        let bytes = versions.iter().map(KeptEntry::bytes).sum();
                        middle.pass(&env.order, &versions[0].key, bytes);
                    }
                    if piece.bottom == Bottom::Deeper && sample.takes(&versions) {
                        let hidden = sample.hidden(env, view, piece, &versions[0].key);
                        output.note_hidden(hidden);
                        hidden_bytes = hidden_bytes.saturating_add(hidden);
                    }
                    output.add(versions.iter().map(KeptEntry::content))?;
                    kept = entries.next(group)?;
                }
                let half = middle.and_then(|middle| middle.finish(&env.order));
                halves.extend(half.map(|half| (group, half)));
                fragment.parts.push(Some(output.written_bytes().saturating_sub(before)));
                group += 1;
                // Groups share what a table hides by the lengths of their parts: deletes have short ones, and hide most.
                let hides_more = hidden_bytes / HIDDEN_FACTOR >= output.written_bytes();
                if output.written_bytes() >= fragment_bytes || (hides_more && hidden_bytes >= fragment_bytes)
                {
                    break;
                }
                // Too short for a table: it goes on with the next group that has entries.
                let mut following = group;
                while following < groups && next.is_none() {
                    next = entries.next(following)?;
                    following += usize::from(next.is_none());
                }
                if next.is_some() {
                    let is_deleted = |group: usize| !writing.deleted_within(group..group + 1).is_empty();
                    fragment.parts.extend((group..following).map(|group| is_deleted(group).then_some(0)));
                    output.add_deleted(writing.deleted_within(group..following + 1));
                    group = following;
                }
            }
            bare = group;
            writing.place(output, fragment)?;
        }
        writing.write_bare(bare..groups, grant)?;
        env.order.check()?;
        let placed = writing.written.pieces.pop().unwrap_or_default().placed;
        let deleted = std::mem::take(&mut writing.deleted);
        let narrowed = self.narrow((view, piece), &deleted, keep);
        Ok(Outcome { placed, deleted, narrowed, chosen: entries.met.chosen, halves })
    }
}

/// Bits per key of the filters of a piece's output, by its share of the keys there.
fn filter_bits<S: Shape>(order: &KeyOrder, view: &View<S>, piece: &Piece, stack: &RunStack) -> u32 {
    let is_input = |run: &&Run| stack.files.iter().any(|input| input.file().id == run.file().id);
    let groups = view.shape.groups().filter(|group| group.span.intersect(order, &piece.span).is_some());
    let others: u64 = groups.flat_map(|group| group.runs).filter(|run| !is_input(run)).map(Run::bytes).sum();
    let own: u64 = stack.files.iter().map(Run::bytes).sum();
    monkey::bits_per_key(own as f64 / (own + others).max(1) as f64)
}

/// The groups that share a table which is being written: from this one on, each with its bytes. `None`
/// has nothing in it.
struct Fragment {
    from: usize,
    parts: Vec<Option<u64>>,
}

impl<'a, S: Shape> Writing<'a, S> {
    /// Begins the output of some groups, with their range deletes. More groups may follow in it.
    fn begin<'o>(&self, groups: Range<usize>, target_bytes: u64, grant: &'o mut Grant<'_>) -> Output<'o>
    where
        'a: 'o,
    {
        let lsm: &'a Lsm<S> = self.written.lsm;
        Output::new(&lsm.env, self.versions, target_bytes, grant)
            .with_expected_bytes(self.input_bytes)
            .with_filter_bits(self.filter_bits)
            .with_logs(self.logs.clone())
            .synced_with(self.synced)
            .with_deleted(self.deleted_within(groups.clone()))
            .with_lineage(self.lineage_within(groups))
    }

    /// The range deletes within some groups.
    fn deleted_within(&self, groups: Range<usize>) -> Vec<DeletedRange> {
        if self.deleted.is_empty() {
            return Vec::new();
        }
        clip(&self.written.lsm.env.order, &self.deleted, &self.piece.span_of(groups))
    }

    fn lineage_within(&self, groups: Range<usize>) -> Lineage {
        self.lineage.within(&self.written.lsm.env.order, &self.piece.span_of(groups))
    }

    fn place(&mut self, output: Output<'_>, fragment: Fragment) -> Result<()> {
        let Fragment { from, parts } = fragment;
        let output = output.with_lineage(self.lineage_within(from..from + parts.len()));
        let placed = output.finish()?.into_iter().map(|output| Placed { from, parts: parts.clone(), output });
        if let Some(outcome) = self.written.pieces.last_mut() {
            outcome.placed.extend(placed);
        }
        Ok(())
    }

    /// Writes the range deletes of groups that get no entries. Neighbours share a table.
    fn write_bare(&mut self, groups: Range<usize>, grant: &mut Grant<'_>) -> Result<()> {
        canary!(RANGE_DELETES_LEFT => return Ok(()));
        let is_deleted = |group: usize| !self.deleted_within(group..group + 1).is_empty();
        let (mut parts, mut from) = (Vec::new(), groups.start);
        while let Some(first) = (from..groups.end).find(|&group| is_deleted(group)) {
            from = (first..groups.end).find(|&group| !is_deleted(group)).unwrap_or(groups.end);
            parts.push(first..from);
        }
        for groups in parts {
            let output = self.begin(groups.clone(), UNCUT_BYTES, grant);
            self.place(output, Fragment { from: groups.start, parts: vec![Some(1); groups.len()] })?;
        }
        Ok(())
    }
}

//! The choice of merges: pure functions from guards and sizes to a job.

use super::levels::{Guard, Levels};
use crate::lsm::shape::{Cuts, Job, Logs, Piece, Rules};
use crate::run::retain::Bottom;
use crate::run::run::Run;
use crate::sync::Arc;
use crate::types::order::KeyOrder;
use crate::types::span::Span;

/// Number of the newest runs to merge, given the lengths of a guard's runs, newest first: the runs
/// that are no longer than this many times all newer ones together. So each merge at least doubles
/// the length of what it merges, and an entry takes part in a logarithmic number of merges.
const ALIKE: u64 = 2;

/// Number of the newest runs that are of similar length; at least 2, if there are 2.
pub fn alike(bytes: &[u64]) -> usize {
    let mut count = bytes.len().min(2);
    let mut sum: u64 = bytes.iter().take(count).sum();
    while let Some(&next) = bytes.get(count).filter(|next| **next <= ALIKE.saturating_mul(sum)) {
        sum += next;
        count += 1;
    }
    count
}

impl Guard {
    /// The merge of the newest `count` runs.
    pub fn merge(&self, count: usize, rules: &Rules) -> Job {
        let bottom = if count == self.runs.len() { Bottom::Reached } else { Bottom::Deeper };
        let piece = Piece {
            span: self.span.clone(),
            tables: self.runs[..count].to_vec(),
            bottom,
            cuts: self.cuts(bottom, self.runs[..count].iter().map(Run::bytes).sum(), rules),
            groups: vec![self.id],
        };
        Job { pieces: vec![piece] }
    }

    /// A guard that is rewritten as a whole is divided if it is long.
    fn cuts(&self, bottom: Bottom, bytes: u64, rules: &Rules) -> Cuts {
        const WHOLE: u64 = 1 << 60;
        let is_divided = bottom == Bottom::Reached && bytes > 2 * rules.table_bytes;
        Cuts::Near(if is_divided { rules.table_bytes } else { WHOLE })
    }
}

impl Levels {
    /// The guard with the most runs, if it has more than are allowed. Its newest runs of similar
    /// length are merged.
    pub fn pick_guard(&self, rules: &Rules) -> Option<Job> {
        let most = self.guards().max_by_key(|guard| guard.runs.len())?;
        if most.runs.len() <= rules.runs_max {
            return None;
        }
        let bytes: Vec<u64> = most.runs.iter().map(Run::bytes).collect();
        Some(most.merge(alike(&bytes), rules))
    }

    /// The merge of logs into the guards of level 1: a fragment for each guard that they have keys
    /// of, above its tables. A guard is rewritten instead if it is empty, since its fragment is then
    /// all that it has, or if a range delete may cover keys that only its tables have.
    pub fn append_fragments(&self, order: &KeyOrder, rules: &Rules, logs: &Logs<'_>) -> Job {
        let Some(level) = self.levels.first() else { return Job::default() };
        let is_rewritten = |guard: &Arc<Guard>| {
            guard.runs.is_empty() || logs.deleted.iter().any(|range| guard.span.overlaps(order, range))
        };
        let mut pieces: Vec<Piece> = Vec::new();
        for guard in level {
            if is_rewritten(guard) {
                // Its share of the logs is not known; the output is cut if it is longer.
                let bytes = guard.bytes() + logs.bytes;
                pieces.push(Piece {
                    span: guard.span.clone(),
                    tables: guard.runs.clone(),
                    bottom: Bottom::Reached,
                    cuts: guard.cuts(Bottom::Reached, bytes, rules),
                    groups: vec![guard.id],
                });
                continue;
            }
            match pieces.last_mut() {
                Some(Piece { span, cuts: Cuts::At(starts), groups, .. }) => {
                    starts.extend(guard.span.start.clone());
                    groups.push(guard.id);
                    *span = Span { start: span.start.clone(), end: guard.span.end.clone() };
                }
                _ => pieces.push(Piece {
                    span: guard.span.clone(),
                    tables: Vec::new(),
                    bottom: Bottom::Deeper,
                    cuts: Cuts::At(Vec::new()),
                    groups: vec![guard.id],
                }),
            }
        }
        Job { pieces }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_takes_the_newest_runs_of_similar_length() {
        let counts = [
            &[][..],
            &[5],
            &[5, 5],
            &[1, 100],
            &[5, 5, 5, 5],
            &[5, 5, 21],
            &[5, 5, 20],
            &[1, 1, 4, 12, 1000],
            &[1, 1, 5, 12, 1000],
        ]
        .map(alike);
        assert_eq!(counts, [0, 1, 2, 2, 4, 2, 3, 4, 2]);
    }
}

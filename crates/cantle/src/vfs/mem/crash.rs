//! The unsynced changes that a power loss leaves.
//!
//! The page cache writes a file back unit by unit (512 B or 4 KiB, the units that a disk writes as
//! a whole). Each unit, and the length, is written at its own time and as it is then. Therefore a
//! plan gives every unit, and the length, a number of changes that it had seen; a unit never has a
//! later change without the earlier ones to its bytes. Bytes below the length that were not written
//! back read as zeros or, in files that grew by writing, as garbage.

use super::content::Content;
use super::file::{Change, FileState, Unsynced};
use super::names::{Names, SavedTree};
use crate::sync::Arc;
use crate::sync::random::{Rng, mix};
use std::collections::HashSet;
use std::ops::Range;

/// The unsynced changes that a power loss keeps. The same plan and history give the same result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPlan {
    /// Decides everything that the other fields leave open.
    pub seed: u64,
    /// The fate of unsynced creations, renames, links and removals.
    pub names: Survival,
    /// The fate of unsynced bytes and lengths, for each file separately.
    pub data: Survival,
    /// The bytes at places where a file grew but its data was lost.
    pub tail: Tail,
}

/// The changes that survive a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// None.
    Nothing,
    /// All.
    Everything,
    /// The first few, chosen by the seed; the last write among them is torn.
    Prefix,
    /// Each change by itself, chosen by the seed; data in units of 512 B or 4 KiB.
    Scattered,
    /// Those with smaller numbers ([`PendingChange`](super::PendingChange)): the changes that had
    /// reached the disk when it stopped.
    Before(u64),
    /// All but the one with this number, and those that a page cache cannot write without it.
    Without(u64),
    /// Only the one with this number, and those that a page cache must write with it.
    Only(u64),
    /// Those with numbers smaller than `number`, and of that write the first `bytes` bytes, up to a
    /// boundary of 512 B.
    Torn {
        /// The number of the write.
        number: u64,
        /// Number of its bytes that were written.
        bytes: u64,
    },
    /// One of the first four, chosen by the seed.
    Any,
}

/// The bytes at places where a file grew but its data was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Nothing: the file ends with the last byte that was kept.
    Cut,
    /// Zeros.
    Zeros,
    /// Noise.
    Garbage,
    /// One of the above, chosen by the seed.
    Any,
}

impl CrashPlan {
    /// Only synced changes survive.
    pub const LOSE_UNSYNCED: Self =
        Self { seed: 0, names: Survival::Nothing, data: Survival::Nothing, tail: Tail::Cut };

    /// Everything survives, as if the power had failed some time after the last change.
    pub const KEEP_ALL: Self =
        Self { seed: 0, names: Survival::Everything, data: Survival::Everything, tail: Tail::Cut };

    /// Anything that can happen, chosen by `seed`.
    pub const fn random(seed: u64) -> Self {
        Self { seed, names: Survival::Any, data: Survival::Any, tail: Tail::Any }
    }
}

impl Survival {
    fn choose(self, rng: &mut Rng) -> Self {
        match self {
            Self::Any => match rng.below(4) {
                0 => Self::Nothing,
                1 => Self::Everything,
                2 => Self::Prefix,
                _ => Self::Scattered,
            },
            chosen => chosen,
        }
    }
}

impl Tail {
    fn choose(self, rng: &mut Rng) -> Self {
        match self {
            Self::Any => match rng.below(3) {
                0 => Self::Cut,
                1 => Self::Zeros,
                _ => Self::Garbage,
            },
            chosen => chosen,
        }
    }
}

/// The directories on the disk after the power loss.
pub(super) fn surviving_names(names: &Names, plan: &CrashPlan) -> SavedTree {
    let mut tree = names.durable.clone();
    let mut rng = Rng::new(mix(plan.seed));
    let survival = plan.names.choose(&mut rng);
    let kept = match survival {
        Survival::Prefix => rng.below(names.unsynced.len() as u64 + 1) as usize,
        Survival::Nothing => 0,
        _ => names.unsynced.len(),
    };
    let mut lost = HashSet::new();
    let needed =
        |number| names.unsynced.iter().find(|change| change.number == number).and_then(|change| change.after);
    for change in &names.unsynced[..kept] {
        let is_lost = match survival {
            Survival::Scattered => rng.one_in(2),
            Survival::Before(number) | Survival::Torn { number, .. } => change.number >= number,
            Survival::Without(number) => change.number == number,
            Survival::Only(number) => change.number != number && Some(change.number) != needed(number),
            _ => false,
        };
        if is_lost || change.after.is_some_and(|after| lost.contains(&after)) {
            lost.insert(change.number);
        } else {
            change.apply(&mut tree);
        }
    }
    tree
}

/// A file's bytes on the disk after the power loss.
pub(super) fn surviving_content(id: u64, state: &FileState, plan: &CrashPlan) -> Arc<Content> {
    if state.unsynced.is_empty() {
        return Arc::clone(&state.durable);
    }
    let mut rng = Rng::new(mix(plan.seed) ^ id.wrapping_add(1));
    let survival = plan.data.choose(&mut rng);
    let tail = plan.tail.choose(&mut rng);
    let all = state.unsynced.len();
    match survival {
        Survival::Nothing => Arc::clone(&state.durable),
        Survival::Everything => {
            let mut content = Content::clone(&state.durable);
            state.unsynced.iter().for_each(|unsynced| unsynced.change.apply(&mut content));
            Arc::new(content)
        }
        _ => {
            let unit_bytes = match survival {
                Survival::Prefix | Survival::Scattered if rng.one_in(2) => 4096,
                _ => 512,
            };
            let before = |number: u64| state.unsynced.partition_point(|unsynced| unsynced.number < number);
            let seen = match survival {
                Survival::Prefix => torn_prefix(state, unit_bytes, rng.below(all as u64) as usize, &mut rng),
                Survival::Scattered => Seen::Scattered { seed: rng.next_u64(), all },
                Survival::Before(number) => Seen::First(before(number)),
                Survival::Torn { number, bytes } => torn(state, before(number), number, bytes, unit_bytes),
                Survival::Without(number) => match at(state, number) {
                    Some(index) => {
                        Seen::Except { index, units: units(state, index, unit_bytes), others: all }
                    }
                    None => Seen::First(all),
                },
                Survival::Only(number) => match at(state, number) {
                    Some(index) => {
                        Seen::Except { index: index + 1, units: units(state, index, unit_bytes), others: 0 }
                    }
                    None => Seen::First(0),
                },
                Survival::Nothing | Survival::Everything | Survival::Any => Seen::First(all),
            };
            let len_seen = match seen {
                // The torn write's length may have been written without its data.
                Seen::Torn { whole, .. } => whole + 1,
                Seen::Scattered { .. } => rng.below(all as u64 + 1) as usize,
                Seen::First(whole) => whole,
                // If a change of the length alone is lost, the length has not seen it. If only one
                // change is kept, the length has seen it.
                Seen::Except { index, others, ref units } if units.is_empty() || others == 0 => index,
                Seen::Except { others, .. } => others,
            };
            Arc::new(WriteBack { state, unit_bytes, seen, len_seen, tail }.image(&mut rng))
        }
    }
}

/// Number of changes that each unit has seen.
enum Seen {
    /// `whole` changes everywhere, one more in the units before `tear`.
    Torn { whole: usize, tear: u64 },
    /// Each unit has its own number, out of `all`.
    Scattered { seed: u64, all: usize },
    /// The same number everywhere.
    First(usize),
    /// `index` in some units, `others` elsewhere.
    Except { index: usize, units: Range<u64>, others: usize },
}

impl Seen {
    /// True if the change of this index, which changes only the length, is the lost one.
    fn lacks_length(&self, index: usize) -> bool {
        matches!(self, Self::Except { index: lost, units, others } if units.is_empty() && *others > 0 && *lost == index)
    }

    fn by(&self, unit: u64) -> usize {
        match *self {
            Self::Torn { whole, tear } => whole + usize::from(unit < tear),
            Self::First(whole) => whole,
            Self::Except { index, ref units, others } => {
                if units.contains(&unit) {
                    index
                } else {
                    others
                }
            }
            Self::Scattered { seed, all } => {
                let mut rng = Rng::new(seed ^ mix(unit.wrapping_add(1)));
                // With many changes, a plain draw would almost never give none or all of them.
                match rng.below(4) {
                    0 => 0,
                    1 => all,
                    _ => rng.below(all as u64 + 1) as usize,
                }
            }
        }
    }
}

/// The index of a change among those of a file.
fn at(state: &FileState, number: u64) -> Option<usize> {
    state.unsynced.binary_search_by_key(&number, |unsynced| unsynced.number).ok()
}

/// The units that a change wrote to.
fn units(state: &FileState, index: usize, unit_bytes: u64) -> Range<u64> {
    match &state.unsynced[index].change {
        Change::Write { offset, bytes } => {
            offset / unit_bytes..(offset + bytes.len() as u64).div_ceil(unit_bytes)
        }
        Change::SetLen(_) | Change::Allocate(_) => 0..0,
    }
}

/// `whole` changes, and `bytes` bytes of the next change if it has this number.
fn torn(state: &FileState, whole: usize, number: u64, bytes: u64, unit_bytes: u64) -> Seen {
    match state.unsynced.get(whole) {
        Some(Unsynced { number: next, change: Change::Write { offset, .. }, .. }) if *next == number => {
            Seen::Torn { whole, tear: (offset + bytes) / unit_bytes }
        }
        _ => Seen::First(whole),
    }
}

fn torn_prefix(state: &FileState, unit_bytes: u64, whole: usize, rng: &mut Rng) -> Seen {
    let tear = match &state.unsynced[whole].change {
        Change::Write { offset, bytes } => {
            let first = offset / unit_bytes;
            let units = (offset + bytes.len() as u64).div_ceil(unit_bytes) - first;
            first + rng.below(units + 1)
        }
        Change::SetLen(_) | Change::Allocate(_) => u64::MAX * rng.below(2),
    };
    Seen::Torn { whole, tear }
}

/// One file during its write-back when the power fails.
struct WriteBack<'a> {
    state: &'a FileState,
    unit_bytes: u64,
    seen: Seen,
    /// Number of changes that the file's length has seen.
    len_seen: usize,
    tail: Tail,
}

impl WriteBack<'_> {
    fn image(&self, rng: &mut Rng) -> Content {
        let durable_len = self.state.durable.len();
        // The length after each number of changes.
        let mut lens = vec![durable_len];
        for unsynced in &self.state.unsynced {
            lens.push(unsynced.change.len_after(lens[lens.len() - 1]));
        }
        let mut content = Content::clone(&self.state.durable);
        let mut kept_end = durable_len;
        for (index, unsynced) in self.state.unsynced.iter().enumerate() {
            let Change::Write { offset, bytes } = &unsynced.change else {
                if let (Change::SetLen(len), false) = (&unsynced.change, self.seen.lacks_length(index)) {
                    content.zero_units(*len, self.unit_bytes, |unit| index < self.seen.by(unit));
                }
                continue;
            };
            let (offset, end) = (*offset, offset + bytes.len() as u64);
            for unit in offset / self.unit_bytes..end.div_ceil(self.unit_bytes) {
                let from = offset.max(unit * self.unit_bytes);
                let to = end.min((unit + 1) * self.unit_bytes);
                let seen = self.seen.by(unit);
                if index < seen {
                    content.write_at(&bytes[(from - offset) as usize..(to - offset) as usize], from);
                    kept_end = kept_end.max(to);
                } else if index < self.len_seen && self.tail == Tail::Garbage {
                    // Blocks that the file did not have before: their content is arbitrary.
                    let from = from.max(lens[seen]);
                    if from < to {
                        let mut noise = vec![0; (to - from) as usize];
                        rng.fill(&mut noise);
                        content.write_at(&noise, from);
                    }
                }
            }
        }
        let len = lens[self.len_seen];
        content.set_len(if self.tail == Tail::Cut { len.min(kept_end) } else { len });
        content
    }
}

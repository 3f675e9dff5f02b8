//! The rules in which a published variant of the layout differs: numbers, and the choices that no number tells.

use crate::log::index::indexed_part::LogSearch;

/// The rules by which the layout chooses, as numbers: a published variant of the layout has others, and the same mechanisms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// The choice of chunks that are in memory.
    pub popularity: Popularity,
    /// The strategy by which operations in older parts of logs are found.
    pub log_search: LogSearch,
    /// Reads of an unsorted chunk cost as much as sorting it once they walked over so many times its entries.
    pub rewrite_cost: u64,
    /// A munk of more than so many chunks' size is split, into so many parts at most.
    pub munk_chunks_max: u64,
    pub munk_parts_max: u64,
    /// A chunk that a split in memory has left with more bytes of files than these, which it shares, is sorted at once.
    pub shared_bytes_max: u64,
    /// The number of leading bytes shared by neighbouring keys that count where a chunk is cut.
    pub cut_prefix_bytes: usize,
    /// A chunk that is smaller than so many eighths of its usual size is joined with a neighbour.
    pub small_eighths: u64,
    /// A table that a log continues is kept as it is if both have so many halves of a chunk's size.
    pub kept_table_halves: u64,
    /// A chunk without a munk that is inserted into in order is split at its end from so many chunks' size on.
    pub end_split_chunks: u64,
    /// Garbage of a munk that is due for a copy while munks have memory left, and while they do not.
    pub roomy_munk: MunkGarbage,
    pub tight_munk: MunkGarbage,
}

impl Rules {
    /// Those of this store. While there is memory, copying munks is what costs; once it is short, those go first that were
    /// written to most, which free the most for what is copied.
    pub const OWN: Self = Self {
        popularity: Popularity::Frequency,
        log_search: LogSearch::Indexed,
        rewrite_cost: 4,
        munk_chunks_max: 2,
        munk_parts_max: u64::MAX,
        shared_bytes_max: u64::MAX,
        cut_prefix_bytes: usize::MAX,
        small_eighths: 1,
        kept_table_halves: 1,
        end_split_chunks: 1,
        roomy_munk: MunkGarbage { munk_bytes_min: 0, garbage_part: 4, live_part: 1 },
        tight_munk: MunkGarbage { munk_bytes_min: 0, garbage_part: 1, live_part: 2 },
    };

    /// Those of the published EvenDB. A munk that exceeds a chunk's size is split into two in memory, and the files of both
    /// are written at once (§3.4); munks are rebalanced at 7 MB (§5.1) and chosen by recency (§4); logs are searched linearly
    /// (§3.3). Reads have nothing sorted, neighbours are not joined, no table is kept, and keys are cut in the middle.
    pub const PUBLISHED: Self = Self {
        popularity: Popularity::Recency,
        log_search: LogSearch::Linear,
        rewrite_cost: u64::MAX,
        munk_chunks_max: 1,
        munk_parts_max: 2,
        shared_bytes_max: 0,
        cut_prefix_bytes: 0,
        small_eighths: 0,
        kept_table_halves: u64::MAX,
        end_split_chunks: u64::MAX,
        roomy_munk: PUBLISHED_GARBAGE,
        tight_munk: PUBLISHED_GARBAGE,
    };
}

/// A copy is due for garbage of more than an eighth of the live bytes, which remain, in a munk of more than 7 MB.
const PUBLISHED_GARBAGE: MunkGarbage =
    MunkGarbage { munk_bytes_min: 7_000_000, garbage_part: 1, live_part: 8 };

/// The choice of chunks that are in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Popularity {
    /// Those that are accessed most, by counts that halve every ten seconds and weigh operations by their type (YoDB).
    Frequency,
    /// Those that were accessed last (EvenDB §4).
    Recency,
}

/// A chunk takes another's place if its score is greater by a quarter and this much: else two of about the same
/// popularity would take turns.
const SCORE_MARGIN: u64 = 16;
/// And by one for so many bytes: to read and copy these takes as long as a get from files. Else chunks whose scores
/// differ by chance would be loaded again and again.
const BYTES_PER_SCORE: u64 = 16 << 10;
/// By recency, a chunk takes another's place if that was accessed so many ticks earlier: about a third of a second.
const TICKS_MARGIN: u64 = 16;

impl Popularity {
    /// The score of a chunk with this decayed count of accesses, which was accessed last at that tick.
    pub fn score(self, accesses: u64, last_access: u64) -> u64 {
        match self {
            Self::Frequency => accesses,
            Self::Recency => last_access,
        }
    }

    /// Whether a chunk with this score, whose munk takes so many bytes, takes the place of one with that.
    pub fn displaces(self, candidate: u64, bytes: u64, resident: u64) -> bool {
        candidate
            > match self {
                Self::Frequency => resident + resident / 4 + SCORE_MARGIN + bytes / BYTES_PER_SCORE,
                // Moments have no proportion: a quarter of one would be a quarter of the time that the store is open.
                Self::Recency => resident + TICKS_MARGIN,
            }
    }
}

/// How much garbage of a munk is much: a part of it exceeds a part of what is live, in a munk of more than so many bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MunkGarbage {
    pub munk_bytes_min: u64,
    pub garbage_part: u64,
    pub live_part: u64,
}

impl MunkGarbage {
    /// Whether a munk with so much garbage, and so much else, is due for a copy.
    pub fn is_due(&self, garbage_bytes: u64, live_bytes: u64) -> bool {
        garbage_bytes + live_bytes > self.munk_bytes_min
            && garbage_bytes / self.garbage_part > live_bytes / self.live_part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_about_the_same_popularity_do_not_take_turns() {
        let displaces = |candidate, resident| Popularity::Frequency.displaces(candidate, 0, resident);
        assert!(displaces(100, 0) && displaces(200, 100));
        assert!(!displaces(110, 100) && !displaces(1100, 1000));
        assert!(!displaces(SCORE_MARGIN, 0), "what is hardly read displaces nothing");
    }

    #[test]
    fn a_chunk_that_costs_more_to_load_must_gain_more() {
        let displaces = |bytes, candidate| Popularity::Frequency.displaces(candidate, bytes, 1000);
        assert!(displaces(64 << 10, 1300) && !displaces(8 << 20, 1300));
        assert!(displaces(8 << 20, 1800));
    }

    #[test]
    fn by_recency_the_age_of_the_store_does_not_matter() {
        let displaces = |candidate, resident| Popularity::Recency.displaces(candidate, 8 << 20, resident);
        for opened_ticks in [0, 1_000, 10_000_000] {
            assert!(displaces(opened_ticks + 200, opened_ticks + 100));
            assert!(!displaces(opened_ticks + 101, opened_ticks + 100));
        }
    }

    #[test]
    fn garbage_of_a_munk_is_copied_away_from_later_while_there_is_memory() {
        let Rules { roomy_munk, tight_munk, .. } = Rules::OWN;
        assert!(!roomy_munk.is_due(4003, 1000) && roomy_munk.is_due(4004, 1000));
        assert!(!tight_munk.is_due(500, 1000) && tight_munk.is_due(501, 1000));
        assert!(!tight_munk.is_due(0, 0));
        let published = Rules::PUBLISHED;
        assert_eq!(published.roomy_munk, published.tight_munk);
        assert!(!published.tight_munk.is_due(1_000_000, 6_000_000));
        assert!(published.tight_munk.is_due(1_000_001, 6_000_000));
        assert!(!published.tight_munk.is_due(1_000_000, 8_000_000), "most of it is live");
    }
}

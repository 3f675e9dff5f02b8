//! The rules in which a published variant of the layout differs: numbers and strategies.

use crate::log::index::indexed_part::LogSearch;

/// The numbers and strategies of the layout's decisions. A published variant has other values, and
/// the same mechanisms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// The choice of chunks in memory.
    pub popularity: Popularity,
    /// Strategy for finding operations in older parts of logs.
    pub log_search: LogSearch,
    /// Reads of an unsorted chunk cost as much as sorting it once they walked this many times the
    /// number of its entries.
    pub rewrite_cost: u64,
    /// A munk that is larger than `munk_chunks_max` chunks is split into at most `munk_parts_max`
    /// parts.
    pub munk_chunks_max: u64,
    pub munk_parts_max: u64,
    /// A chunk is sorted at once if a split in memory leaves it with more than this many bytes of
    /// shared files.
    pub shared_bytes_max: u64,
    /// Maximum number of shared leading bytes of neighbouring keys that count when a chunk is cut.
    pub cut_prefix_bytes: usize,
    /// A chunk of less than this many eighths of a full chunk is joined with a neighbour.
    pub small_eighths: u64,
    /// A table that a log continues is kept as it is if both have at least this many halves of a
    /// full chunk.
    pub kept_table_halves: u64,
    /// A chunk without a munk that is inserted into in order gets a tail split from this many full
    /// chunks on.
    pub end_split_chunks: u64,
    /// Garbage of a munk that makes a copy due: while munks have memory left, and while they do
    /// not.
    pub roomy_munk: MunkGarbage,
    pub tight_munk: MunkGarbage,
}

impl Rules {
    /// Cantle's own rules. While there is memory, copying munks is the main cost. Once memory is
    /// short, the munks that were written to most are copied first: they free most for the bytes
    /// copied.
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

    /// The rules of the published EvenDB. A munk that exceeds a chunk's size is split into two in
    /// memory, and the files of both are written at once (§3.4). Munks are rebalanced at 7 MB
    /// (§5.1) and chosen by recency (§4). Logs are searched linearly (§3.3). Reads never make a
    /// chunk due for sorting, neighbours are not joined, no table is kept, and keys are cut in the
    /// middle.
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

/// A copy is due if a munk of more than 7 MB has garbage of more than an eighth of its live bytes.
const PUBLISHED_GARBAGE: MunkGarbage =
    MunkGarbage { munk_bytes_min: 7_000_000, garbage_part: 1, live_part: 8 };

/// The choice of chunks in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Popularity {
    /// Chunks that are accessed most, by counts that are halved every ten seconds and weigh
    /// operations by their type (YoDB).
    Frequency,
    /// Chunks that were accessed last (EvenDB §4).
    Recency,
}

/// A chunk displaces another if its score is greater by a quarter plus this margin: otherwise two
/// of similar popularity would alternate.
const SCORE_MARGIN: u64 = 16;
/// In addition, its score must be greater by one for each of this many bytes of its munk: reading
/// and copying them takes as long as a get from files. Otherwise chunks whose scores differ by
/// chance would be loaded again and again.
const BYTES_PER_SCORE: u64 = 16 << 10;
/// By recency, a chunk displaces another that was accessed this many ticks earlier: about a third
/// of a second.
const TICKS_MARGIN: u64 = 16;

impl Popularity {
    /// The score of a chunk with this decayed count of accesses and this tick of the last access.
    pub fn score(self, accesses: u64, last_access: u64) -> u64 {
        match self {
            Self::Frequency => accesses,
            Self::Recency => last_access,
        }
    }

    /// True if a chunk with the score `candidate`, whose munk takes `bytes`, displaces one with the
    /// score `resident`.
    pub fn displaces(self, candidate: u64, bytes: u64, resident: u64) -> bool {
        candidate
            > match self {
                Self::Frequency => resident + resident / 4 + SCORE_MARGIN + bytes / BYTES_PER_SCORE,
                // Times have no proportion: a quarter of one would be a quarter of the time since
                // the store was opened.
                Self::Recency => resident + TICKS_MARGIN,
            }
    }
}

/// The limit of a munk's garbage: a fraction of the garbage exceeds a fraction of the live bytes,
/// in a munk above a minimum of bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MunkGarbage {
    pub munk_bytes_min: u64,
    pub garbage_part: u64,
    pub live_part: u64,
}

impl MunkGarbage {
    /// True if a munk with this garbage and these live bytes is due for a copy.
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

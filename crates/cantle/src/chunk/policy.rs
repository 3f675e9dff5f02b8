//! Decides when a chunk is rebalanced: pure functions from sizes to choices, by the
//! [rules](crate::chunk::rules) of a variant.

use crate::chunk::rules::Rules;

/// Sizes of a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ChunkSizes {
    pub table_bytes: u64,
    pub log_bytes: u64,
    /// Estimated bytes of tables and logs that a rebalance would free.
    pub garbage_bytes: u64,
    /// The chunk's portion of the unclaimed bytes of its shared files: rebalances of all chunks
    /// that share these files free it.
    pub unclaimed_bytes: u64,
    /// Bytes of its logs beside keys and values that tables would not need. With tiny pairs and
    /// deletes, these are most of the bytes.
    pub overhead_bytes: u64,
    pub files: usize,
    /// Number of puts in its files; 0 if unknown.
    pub entries: u64,
    /// Number of entries that reads skipped, or found only through a log.
    pub read_debt: u64,
    /// Number of range deletes that gets have to check.
    pub range_deletes: usize,
    /// Bytes of the live records of its munk, if it is in memory.
    pub munk_live_bytes: Option<u64>,
}

/// Sizes of the keyspace.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KeyspaceSizes {
    /// Bytes of the logs and tables that chunks refer to.
    pub file_bytes: u64,
    /// Bytes of obsolete files that wait for a checkpoint.
    pub held_bytes: u64,
    /// Bytes of tables that are being written.
    pub growing_bytes: u64,
    /// Bytes of garbage that rebalances under way will free.
    pub freeing_bytes: u64,
    /// Estimated bytes of the pairs that a scan would return.
    pub live_bytes: u64,
    /// Estimated number of these pairs.
    pub pairs: u64,
    /// Estimated bytes of keys and values that open snapshots keep in addition.
    pub pinned_bytes: u64,
    /// True if something was written recently.
    pub is_written: bool,
}

/// Bytes that a pair counts beside its key and value, where live bytes bound the space.
const PAIR_BYTES: u64 = 16;

impl KeyspaceSizes {
    /// The bytes that the space bound is relative to.
    fn bounded_bytes(&self) -> u64 {
        let of_pairs = self.pairs.saturating_mul(PAIR_BYTES);
        self.live_bytes.saturating_add(of_pairs).saturating_add(self.pinned_bytes)
    }
}

/// Settings that affect the choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    pub chunk_bytes: u64,
    /// `None` for the usual bound, which is higher for keyspaces that are small relative to memory.
    pub space_amplification: Option<f64>,
    /// Bytes allowed beside live bytes if no bound was set.
    pub spare_bytes: u64,
    pub log_bytes: Option<u64>,
    /// The same limit for chunks in memory.
    pub munk_log_bytes: Option<u64>,
    pub rules: Rules,
    /// If space is short, the longest log that a rebalance finds space to sort, in bytes.
    pub log_bytes_max: u64,
}

/// The reason for a rebalance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Its log has reached the length limit.
    LogFull,
    /// Reads of the unsorted chunk have cost as much as sorting it.
    Reads,
    /// It has too many files, or too many range deletes.
    Fragments,
    /// Its munk has grown so large that it is split, and with it the chunk. The files are shared
    /// for now.
    MunkLarge,
}

/// Maximum number of a chunk's files before the newest are merged: every get searches each of them,
/// and every scan opens each. A tiered merge leaves at most five files of a chunk of 8 MiB, so one
/// takes place at every third file or less often.
pub const FILES_MAX: usize = 8;
/// A chunk with too many files is split instead of merged if it has more than this many times the
/// bytes of a full chunk.
const OVERSIZED_CHUNKS: u64 = 2;
/// Files up to this length in bytes count as equally long: rewriting this much costs no more than
/// the sync of the new table.
const TIER_BYTES_MIN: u64 = 64 << 10;
const RANGE_DELETES_MAX: usize = 32;
/// Maximum length of a log, in chunks, before it is sorted. Sorting then rewrites at most a
/// twentieth of the bytes that were sorted before: 1 (log) + 1 (table) + 1/20 bytes written per
/// byte inserted.
const LOG_CHUNKS_MAX: u64 = 20;
/// Length of a typical entry in bytes, to estimate the number of entries if they were not counted.
pub const ENTRY_BYTES: u64 = 256;
/// Bytes on disk per live byte if no bound was set: usually, and at most while data is small
/// relative to the memory budget.
const USUAL_BOUND: f64 = 1.5;
const SPARED_BOUND_MAX: f64 = 3.0;
/// Maximum bytes that a keyspace takes beside its live bytes because the memory budget is large.
const SPARE_BYTES_MAX: u64 = 512 << 20;
/// In addition, a keyspace may take this many chunks, up to the number of bytes below: a part of
/// the 64 MiB that a store may take whatever it holds.
const SPARE_CHUNKS: u64 = 4;
const SPARE_CHUNK_BYTES_MAX: u64 = 32 << 20;
/// Additional space of a keyspace that is being written to, as a fraction of its allowed bytes and
/// in bytes. Meanwhile fewer bytes are rewritten, and it can be released in a second or two.
const WHILE_WRITTEN: f64 = 1.0 / 12.0;
const WHILE_WRITTEN_BYTES_MAX: f64 = (64 << 20) as f64;
/// Bytes that a keyspace may take whatever it holds: below this, headers and half-filled files
/// dominate.
const BOUNDED_BYTES_MIN: u64 = 4 << 20;

/// Maximum bytes of obsolete files, of one keyspace or of all in a store, that wait for a
/// checkpoint. At this number one is started.
pub const HELD_BYTES_MAX: u64 = 256 << 20;

/// Maximum length of a chunk's log, if the space bound does not limit it before. It grows with the
/// keyspace: a small one soon has several chunks, and a large one writes an insert little more than
/// twice.
///
/// With a munk, reads do not touch the log, so it may be longer (EvenDB §3.4).
pub fn log_limit_bytes(limits: &Limits, keyspace: &KeyspaceSizes, has_munk: bool) -> u64 {
    let chunk = limits.chunk_bytes;
    let fixed = limits.munk_log_bytes.filter(|_| has_munk).or(limits.log_bytes);
    fixed.unwrap_or_else(|| {
        let most = LOG_CHUNKS_MAX * chunk;
        let wanted = if has_munk { most } else { (keyspace.live_bytes / 32).clamp(chunk, most) };
        wanted.min(limits.log_bytes_max.max(chunk))
    })
}

/// Delay of a write whose log has grown beyond twice its limit: sorting takes long, and the more
/// the log grows meanwhile, the longer the next time. At four times the limit, writers are slower
/// than sorting.
pub fn long_log_delay_nanos(log_bytes: u64, limit_bytes: u64) -> u64 {
    const NANOS_PER_LIMIT: f64 = 10_000.0;
    let times = log_bytes as f64 / limit_bytes.max(1) as f64;
    ((times - 2.0).clamp(0.0, 8.0) * NANOS_PER_LIMIT) as u64
}

/// The reason why a chunk is due for a rebalance, independent of the space bound.
pub fn due(chunk: &ChunkSizes, limits: &Limits, keyspace: &KeyspaceSizes) -> Option<Reason> {
    if chunk.log_bytes >= log_limit_bytes(limits, keyspace, chunk.munk_live_bytes.is_some()) {
        return Some(Reason::LogFull);
    }
    if chunk.files > FILES_MAX || chunk.range_deletes > RANGE_DELETES_MAX {
        return Some(Reason::Fragments);
    }
    let entries = match chunk.entries {
        0 => (chunk.table_bytes + chunk.log_bytes) / ENTRY_BYTES,
        counted => counted,
    };
    let unsorted = chunk.log_bytes > 0 || chunk.files > 1;
    if unsorted && chunk.read_debt > limits.rules.rewrite_cost.saturating_mul(entries.max(64)) {
        return Some(Reason::Reads);
    }
    // Checked last: it rewrites nothing, and if it cannot be done, this must not prevent the
    // others.
    chunk.munk_live_bytes.is_some_and(|bytes| is_munk_large(bytes, limits)).then_some(Reason::MunkLarge)
}

/// Number of a chunk's newest files that are merged into one, given the lengths of its files,
/// newest first. The run ends before the first file that is more than twice as long as all newer
/// ones, but is long enough to leave no more than `FILES_MAX` files. 0 or 1: nothing is merged.
pub fn newest_run(bytes: &[u64]) -> usize {
    let Some((first, rest)) = bytes.split_first() else { return 0 };
    let mut newer_bytes = TIER_BYTES_MIN.saturating_add(*first);
    let fits = |file_bytes: &&u64| {
        let fits = **file_bytes <= newer_bytes.saturating_mul(2);
        newer_bytes = newer_bytes.saturating_add(**file_bytes);
        fits
    };
    let run = 1 + rest.iter().take_while(fits).count();
    run.max((bytes.len() + 1).saturating_sub(FILES_MAX))
}

/// True if a chunk is to be rewritten as a whole, and split, though only its newest files are too
/// many.
pub fn is_oversized(chunk: &ChunkSizes, limits: &Limits) -> bool {
    chunk.table_bytes + chunk.log_bytes > OVERSIZED_CHUNKS * limits.chunk_bytes
}

/// True if a munk with this many live bytes is to be split, before its log is sorted.
pub fn is_munk_large(live_bytes: u64, limits: &Limits) -> bool {
    live_bytes > limits.rules.munk_chunks_max * limits.chunk_bytes
}

/// Number of chunks into which a large munk is split.
pub fn munk_split_count(live_bytes: u64, limits: &Limits) -> u64 {
    split_count(live_bytes, limits).min(limits.rules.munk_parts_max)
}

/// True if a chunk that has this many bytes of shared files after a split in memory is to be sorted
/// at once.
pub fn is_sorted_once_divided(shared_bytes: u64, limits: &Limits) -> bool {
    shared_bytes > limits.rules.shared_bytes_max
}

/// True if a table is long enough to be kept as it is, instead of being rewritten with the log that
/// continues it.
pub fn is_table_kept(table_bytes: u64, log_bytes: u64, limits: &Limits) -> bool {
    table_bytes.min(log_bytes) >= (limits.chunk_bytes / 2).saturating_mul(limits.rules.kept_table_halves)
}

/// True if a chunk without a munk that is inserted into in order is large enough for a tail split.
pub fn is_end_split(live_bytes: u64, limits: &Limits) -> bool {
    live_bytes >= limits.chunk_bytes.saturating_mul(limits.rules.end_split_chunks)
}

/// Bytes that a store may take beside its live ones if no bound was set.
pub fn spare_bytes(budget_bytes: u64, chunk_bytes: u64) -> u64 {
    (budget_bytes / 2).min(SPARE_BYTES_MAX) + (SPARE_CHUNKS * chunk_bytes).min(SPARE_CHUNK_BYTES_MAX)
}

/// Bytes that the keyspace may take beside those that its bound is relative to.
pub fn slack_bytes(limits: &Limits, keyspace: &KeyspaceSizes) -> u64 {
    let live = keyspace.bounded_bytes() as f64;
    let Some(bound) = limits.space_amplification else {
        let usual =
            (limits.spare_bytes as f64).clamp(live * (USUAL_BOUND - 1.0), live * (SPARED_BOUND_MAX - 1.0));
        let more = if keyspace.is_written { (live + usual) * WHILE_WRITTEN } else { 0.0 };
        return (usual + more.min(WHILE_WRITTEN_BYTES_MAX)) as u64;
    };
    (live * (bound - 1.0)) as u64
}

/// The bytes that the space bound allows.
fn allowed_bytes(limits: &Limits, keyspace: &KeyspaceSizes) -> u64 {
    (keyspace.bounded_bytes().saturating_add(slack_bytes(limits, keyspace))).max(BOUNDED_BYTES_MIN)
}

/// Bytes that must stay free below the bound, so that it holds while a chunk is rewritten and the
/// old files wait for a checkpoint. At most a quarter of the bytes that the bound leaves for logs.
fn margin_bytes(limits: &Limits, keyspace: &KeyspaceSizes) -> u64 {
    let slack = allowed_bytes(limits, keyspace).saturating_sub(keyspace.bounded_bytes());
    (held_limit_bytes(limits, keyspace) + limits.chunk_bytes).min(slack / 4)
}

/// Number of bytes by which the keyspace's files are about to exceed its space bound, after the
/// rebalances under way. If it is not 0, more rebalances are due.
pub fn over_bytes(limits: &Limits, keyspace: &KeyspaceSizes) -> u64 {
    if limits.log_bytes.is_some() {
        return 0;
    }
    let allowed = allowed_bytes(limits, keyspace) - margin_bytes(limits, keyspace);
    keyspace.file_bytes.saturating_sub(keyspace.freeing_bytes).saturating_sub(allowed)
}

/// True if a rebalance must wait until a checkpoint has freed the files of earlier ones: otherwise
/// its output would exceed the bound for no lasting gain.
pub fn must_wait_for_checkpoint(limits: &Limits, keyspace: &KeyspaceSizes) -> bool {
    keyspace.held_bytes > held_limit_bytes(limits, keyspace) && excess(limits, keyspace) > 0.0
}

/// The present excess over the bound, as a fraction of it.
pub fn excess(limits: &Limits, keyspace: &KeyspaceSizes) -> f64 {
    if limits.log_bytes.is_some() {
        return 0.0;
    }
    let disk = keyspace.file_bytes + keyspace.held_bytes + keyspace.growing_bytes;
    let allowed = allowed_bytes(limits, keyspace);
    disk.saturating_sub(allowed) as f64 / allowed as f64
}

/// Minimum gain of a rebalance that is worth its writing.
pub const GAIN_MIN: f64 = 0.02;

/// Sizes that show how well a chunk's content compresses.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Compressible {
    /// Bytes of logs, which are not compressed, and the chunk's portion of unclaimed bytes of
    /// shared files.
    pub log_bytes: u64,
    /// Bytes of tables, which are compressed.
    pub table_bytes: u64,
    /// Bytes of keys and values in these tables.
    pub table_user_bytes: u64,
}

/// True if a chunk of a keyspace with compression is to be sorted for that reason alone: if
/// compression of its logs may save at least an eighth of the bytes written for it. Its tables show
/// how well the chunk compresses. Without a table, all bytes are assumed to be saved, and sorting
/// will show. A chunk that does not compress is thus sorted once, and again when its logs are eight
/// times as long as its tables.
pub fn is_worth_compressing(chunk: &Compressible) -> bool {
    /// Saving fewer bytes is not worth a table and its sync.
    const SAVED_BYTES_MIN: u64 = 64 << 10;
    /// At least this fraction of a log's bytes is assumed to be saved, even if the table's do not
    /// compress: they may be of another kind.
    const SAVED_PART_MIN: f64 = 0.125;
    let kept = match chunk.table_user_bytes {
        0 => 0.0,
        user_bytes => chunk.table_bytes as f64 / user_bytes as f64,
    };
    let saved = (chunk.log_bytes as f64 * (1.0 - kept).max(SAVED_PART_MIN)) as u64;
    let written = chunk.table_bytes.saturating_add(chunk.log_bytes - saved);
    saved >= SAVED_BYTES_MIN.max(written / 8)
}

/// Bytes that a rebalance of the chunk frees per byte that it writes.
pub fn gain(chunk: &ChunkSizes) -> f64 {
    let total = (chunk.table_bytes + chunk.log_bytes) as f64;
    // All logs have some overhead: the usual part does not count.
    let overhead = chunk.overhead_bytes.saturating_sub(chunk.log_bytes / 4);
    let garbage = (chunk.garbage_bytes.saturating_add(overhead) as f64).min(total);
    (garbage + chunk.unclaimed_bytes as f64) / (total - garbage + 4096.0)
}

/// Approximate bytes that a rebalance of the chunk writes: live bytes, an eighth for filter, index
/// and headers, and the rest of the last pages.
pub fn output_bytes(chunk: &ChunkSizes) -> u64 {
    let live = (chunk.table_bytes + chunk.log_bytes).saturating_sub(chunk.garbage_bytes);
    if live == 0 { 0 } else { live + live / 8 + (16 << 10) }
}

/// Bytes of obsolete files beyond which the next checkpoint is brought forward.
pub fn held_limit_bytes(limits: &Limits, keyspace: &KeyspaceSizes) -> u64 {
    (slack_bytes(limits, keyspace) / 16).clamp(2 << 20, HELD_BYTES_MAX)
}

/// Number of chunks into which `bytes` are split: none exceeds the limit, and each has room to
/// grow.
pub fn split_count(bytes: u64, limits: &Limits) -> u64 {
    if bytes <= limits.chunk_bytes { 1 } else { (bytes / (limits.chunk_bytes * 3 / 4)).max(2) }
}

/// True if two neighbours are small enough to be merged.
pub fn should_merge(a_bytes: u64, b_bytes: u64, limits: &Limits) -> bool {
    let small_bytes = limits.chunk_bytes / 8 * limits.rules.small_eighths;
    a_bytes.min(b_bytes) < small_bytes && a_bytes + b_bytes < limits.chunk_bytes / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            chunk_bytes: 8 << 20,
            space_amplification: None,
            spare_bytes: 512 << 20,
            log_bytes: None,
            munk_log_bytes: None,
            rules: Rules::OWN,
            log_bytes_max: u64::MAX,
        }
    }

    fn bound_at(limits: &Limits, live_mib: u64) -> f64 {
        let sizes = KeyspaceSizes { live_bytes: live_mib << 20, ..KeyspaceSizes::default() };
        1.0 + slack_bytes(limits, &sizes) as f64 / sizes.bounded_bytes() as f64
    }

    #[test]
    fn a_keyspace_that_is_small_beside_memory_may_take_more_space() {
        let bounds = [1, 256, 512, 1024, 4096].map(|live_mib| bound_at(&limits(), live_mib));
        assert_eq!(bounds, [3.0, 3.0, 2.0, 1.5, 1.5]);
        let given = Limits { space_amplification: Some(1.25), ..limits() };
        assert_eq!([256, 4096].map(|live_mib| bound_at(&given, live_mib)), [1.25; 2]);
    }

    #[test]
    fn a_keyspace_that_is_written_to_takes_a_twelfth_more_up_to_64_mib() {
        let more = |limits: &Limits, live_mib: u64| {
            let at_rest = KeyspaceSizes { live_bytes: live_mib << 20, ..KeyspaceSizes::default() };
            let written = KeyspaceSizes { is_written: true, ..at_rest };
            (allowed_bytes(limits, &written) - allowed_bytes(limits, &at_rest)) >> 20
        };
        assert_eq!(
            [4, 256, 512, 4096, 1 << 20].map(|live_mib| more(&limits(), live_mib)),
            [1, 64, 64, 64, 64]
        );
        let given = Limits { space_amplification: Some(1.5), ..limits() };
        assert_eq!([4, 4096].map(|live_mib| more(&given, live_mib)), [0; 2]);
    }

    #[test]
    fn a_store_takes_half_of_its_memory_budget_and_some_chunks_beside_what_is_live() {
        let spare = |budget_mib: u64, chunk_mib: u64| spare_bytes(budget_mib << 20, chunk_mib << 20) >> 20;
        assert_eq!([spare(64, 8), spare(1024, 8), spare(8192, 8)], [64, 544, 544]);
        assert_eq!([spare(64, 1), spare(64, 1024)], [36, 64]);
    }

    #[test]
    fn small_files_are_merged_and_long_ones_left() {
        assert_eq!(newest_run(&[]), 0);
        assert_eq!(newest_run(&[100, 100, 100]), 3);
        assert_eq!(newest_run(&[100, 100, 8 << 20]), 2);
        assert_eq!(newest_run(&[5 << 20, 100, 8 << 20, 64 << 20]), 3);
        assert_eq!(newest_run(&[1, 1 << 20]), 1);
        let growing: Vec<u64> = (0..12).map(|file| 1 << (20 + 2 * file)).collect();
        assert_eq!(newest_run(&growing), 5, "no more than {FILES_MAX} are left");
        assert_eq!(newest_run(&[u64::MAX; 3]), 3);
    }

    /// Each opening adds a file of `bytes`; if there are too many, the newest are merged.
    #[test]
    fn a_byte_is_rewritten_as_often_as_the_logarithm_of_its_chunk() {
        for (bytes, openings) in [(100, 4096), (10_000, 4096), (200_000, 600), (1 << 20, 128)] {
            let (mut files, mut written, mut most) = (Vec::new(), 0, 0);
            for _ in 0..openings {
                files.insert(0, bytes);
                if files.len() > FILES_MAX {
                    let merged: u64 = files.drain(..newest_run(&files)).sum();
                    written += merged;
                    files.insert(0, merged);
                }
                most = most.max(files.len());
            }
            assert!(most <= FILES_MAX, "{most} files");
            let each = written / openings;
            assert!(each <= (10 * bytes).max(TIER_BYTES_MIN / 8), "{each} bytes for each of {bytes}");
        }
    }

    #[test]
    fn what_snapshots_pin_and_pairs_take_is_allowed_beside_what_is_live() {
        let limits = Limits { space_amplification: Some(1.5), ..limits() };
        let sizes =
            KeyspaceSizes { live_bytes: 100 << 20, file_bytes: 190 << 20, ..KeyspaceSizes::default() };
        assert!(excess(&limits, &sizes) > 0.2);
        let pinning = KeyspaceSizes { pinned_bytes: 30 << 20, ..sizes };
        assert_eq!(excess(&limits, &pinning), 0.0);
        let of_small = KeyspaceSizes { pairs: 2 << 20, ..sizes };
        assert_eq!(excess(&limits, &of_small), 0.0);
    }

    #[test]
    fn sorting_tiny_pairs_and_deletes_frees_most_of_their_log() {
        let chunk = |user_bytes: u64, overhead_bytes| ChunkSizes {
            log_bytes: user_bytes + overhead_bytes,
            overhead_bytes,
            ..ChunkSizes::default()
        };
        assert_eq!(gain(&chunk(1000 << 10, 40 << 10)), 0.0, "as usual");
        assert!(gain(&chunk(100 << 10, 200 << 10)) > 0.5);
        assert!(gain(&chunk(0, 200 << 10)) > 1.0);
    }

    #[test]
    fn writers_of_a_log_that_outgrows_its_sorting_are_slowed() {
        let delays = [1, 20, 30, 40, 1000].map(|log_bytes| long_log_delay_nanos(log_bytes, 10));
        assert_eq!(delays, [0, 0, 10_000, 20_000, 80_000]);
    }

    #[test]
    fn what_compresses_is_sorted_once_for_as_much_as_was_written() {
        // Bytes of a table for each byte of a log.
        for kept in [0.01, 0.5, 1.0] {
            let mut chunk = Compressible::default();
            let (mut appended, mut written, mut sorted) = (0, 0, 0);
            for _ in 0..1000 {
                chunk.log_bytes += 16 << 10;
                appended += 16 << 10;
                if is_worth_compressing(&chunk) {
                    chunk.table_user_bytes += chunk.log_bytes;
                    chunk.table_bytes = (chunk.table_user_bytes as f64 * kept) as u64;
                    chunk.log_bytes = 0;
                    (written, sorted) = (written + chunk.table_bytes, sorted + 1);
                    assert!(!is_worth_compressing(&chunk), "nothing was written since");
                }
            }
            assert!(written <= 9 * appended, "{written} bytes written for {appended}, {kept}");
            match kept < 0.9 {
                true => assert!(chunk.log_bytes <= chunk.table_bytes / 2 + (128 << 10), "{chunk:?}"),
                false => assert!((1..10).contains(&sorted), "{sorted} times for nothing"),
            }
        }
    }

    #[test]
    fn a_chunk_is_sorted_when_reads_have_cost_as_much() {
        let chunk = |entries, read_debt| ChunkSizes {
            log_bytes: 8 << 20,
            garbage_bytes: 0,
            entries,
            read_debt,
            ..ChunkSizes::default()
        };
        let due = |chunk| {
            due(&chunk, &limits(), &KeyspaceSizes { live_bytes: 4 << 30, ..KeyspaceSizes::default() })
        };
        assert_eq!(due(chunk(10_000, 40_000)), None);
        assert_eq!(due(chunk(10_000, 40_001)), Some(Reason::Reads));
        assert_eq!(due(chunk(0, 40_001)), None, "not known: many, short ones");
    }

    #[test]
    fn what_goes_beyond_the_paper_is_never_due_as_published() {
        let ours = limits();
        let published = Limits { rules: Rules::PUBLISHED, ..limits() };
        let (chunk, read_debt) = (8 << 20, u64::MAX);
        let sizes = ChunkSizes { log_bytes: 1, read_debt, ..ChunkSizes::default() };
        let keyspace = KeyspaceSizes::default();
        assert_eq!(
            (due(&sizes, &ours, &keyspace), due(&sizes, &published, &keyspace)),
            (Some(Reason::Reads), None)
        );
        for (limits, beyond) in [(&ours, true), (&published, false)] {
            assert_eq!(should_merge(0, 1, limits), beyond);
            assert_eq!(is_table_kept(chunk, chunk, limits), beyond);
            assert_eq!(is_end_split(1 << 48, limits), beyond);
            assert_eq!(is_sorted_once_divided(1, limits), !beyond);
            assert_eq!(is_munk_large(chunk + 1, limits), !beyond);
            assert_eq!(munk_split_count(10 * chunk, limits), if beyond { 13 } else { 2 });
        }
    }
}

//! The rule for the entries of a key that a merge keeps: the newest, and those that an open
//! snapshot sees.
//!
//! EvenDB §3.2 keeps all entries since the oldest scan. Here a snapshot that stays open for long
//! costs only the entries that it sees itself.

/// The rule, for one merge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keep {
    /// The versions that open snapshots read, ascending.
    pub versions: Vec<u64>,
}

impl Keep {
    /// From [`Mvcc::open_versions`](super::clock::Mvcc::open_versions), called after the merge's
    /// input was sealed.
    pub fn new(versions: Vec<u64>) -> Self {
        debug_assert!(versions.is_sorted());
        Self { versions }
    }

    /// True if the entry with `version` is to be kept, when `newer` is the version of the next
    /// newer entry of the same key. The newest entry (`None`) is always kept, an older one if an
    /// open snapshot sees it.
    ///
    /// `newer` counts even if that entry itself was not kept. Entries that nobody may see (dead, or
    /// of an uncommitted batch) do not count: the caller skips them before it asks.
    pub fn needed(&self, newer: Option<u64>, version: u64) -> bool {
        let Some(newer) = newer else { return true };
        let first_at_or_above = self.versions.partition_point(|&snapshot| snapshot < version);
        self.versions.get(first_at_or_above).is_some_and(|&snapshot| snapshot < newer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    /// The entries that each snapshot, and a get, sees of a key whose entries have these versions,
    /// newest first.
    fn seen(entries: &[u64], snapshots: &[u64]) -> Vec<Option<u64>> {
        let newest_upto = |s: u64| entries.iter().copied().find(|&version| version <= s);
        snapshots.iter().copied().chain([u64::MAX]).map(newest_upto).collect()
    }

    proptest! {
        #[test]
        fn a_merge_changes_no_view_and_keeps_no_more_than_the_views_need(
            mut entries in vec(0u64..40, 0..20),
            snapshots in btree_set(0u64..40, 0..8),
        ) {
            entries.sort_unstable_by(|a, b| b.cmp(a));
            let snapshots: Vec<u64> = snapshots.into_iter().collect();
            let keep = Keep::new(snapshots.clone());
            let mut newer = None;
            let mut kept = Vec::new();
            for &version in &entries {
                if keep.needed(newer, version) {
                    kept.push(version);
                }
                newer = Some(version);
            }
            let views = seen(&entries, &snapshots);
            prop_assert_eq!(seen(&kept, &snapshots), views.clone());
            let mut needed: Vec<u64> = views.into_iter().flatten().collect();
            needed.sort_unstable_by(|a, b| b.cmp(a));
            needed.dedup();
            prop_assert_eq!(kept, needed);
        }
    }

    #[test]
    fn a_snapshot_from_long_ago_does_not_keep_what_came_after_it() {
        let keep = Keep::new(vec![5]);
        assert!(keep.needed(None, 100));
        for version in 6..100 {
            assert!(!keep.needed(Some(version + 1), version));
        }
        assert!(keep.needed(Some(6), 5));
        assert!(!keep.needed(Some(5), 4));
        assert!(!keep.needed(Some(5), 5), "the newer of two entries with one version replaces the other");
    }
}

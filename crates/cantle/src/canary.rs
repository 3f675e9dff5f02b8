//! Bugs that are planted on purpose, so that the fault lab can show that it would find them.
//!
//! A site is one line, `canary!(..)`, beside the right code. Without the feature `canaries`, which
//! no product has, the line expands to nothing. With it, one bug at a time is planted for the whole
//! process.

/// Plants a bug beside the right code. Nothing happens unless the lab has chosen this bug. It has
/// three forms:
///
/// * A wrong value. A `let` shadows a variable for the code that follows:
///   ```ignore
///   let at = self.snapshot.version();
///   canary!(VERSION_OFF_BY_ONE => let at = at + 1);
///   ```
/// * A wrong action. An expression runs first, and may return, so that the code that follows is
///   skipped:
///   ```ignore
///   canary!(RANGE_DELETE_MISSED => return Ok(false));
///   ```
/// * A skipped step. The form stands around the call, and is `Ok(())` in its place:
///   ```ignore
///   canary!(UNNAMED_REPAIR else vfs.sync_dir(dir))?;
///   ```
#[cfg(feature = "canaries")]
macro_rules! canary {
    ($bug:ident => let $name:ident = $wrong:expr) => {
        let $name = if $crate::canary::Canary::$bug.is_planted() { $wrong } else { $name };
    };
    ($bug:ident => $wrong:expr) => {
        if $crate::canary::Canary::$bug.is_planted() {
            $wrong;
        }
    };
    ($bug:ident else $right:expr) => {
        if $crate::canary::Canary::$bug.is_planted() { Ok(()) } else { $right }
    };
}

#[cfg(not(feature = "canaries"))]
macro_rules! canary {
    ($bug:ident => $($wrong:tt)+) => {};
    ($bug:ident else $right:expr) => {
        $right
    };
}

/// A bug that can be planted.
#[cfg(feature = "canaries")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Canary {
    /// The lab's name for it.
    pub name: &'static str,
    /// The wrong behaviour of the store.
    pub about: &'static str,
}

#[cfg(feature = "canaries")]
macro_rules! canaries {
    ($($id:ident $name:literal $about:literal),+ $(,)?) => {
        impl Canary {
            $(#[doc = $about] pub(crate) const $id: Self = Self { name: $name, about: $about };)+

            /// All bugs.
            pub const ALL: &'static [Self] = &[$(Self::$id),+];
        }
    };
}

#[cfg(feature = "canaries")]
canaries! {
    UNSYNCED_TABLE "unsynced-table" "a new table is not synced",
    UNSYNCED_LOG "unsynced-log" "a checkpoint does not sync logs",
    FAILURE_EVICTED "failure-evicted" "what the kernel could not write of a log is forgotten with its inode",
    UNSYNCED_INHERITED_LOG "unsynced-inherited-log" "the first checkpoint does not sync the logs of a dead process",
    UNSYNCED_CHECKPOINT "unsynced-checkpoint" "a checkpoint's record is not synced",
    UNSYNCED_MANIFEST "unsynced-manifest" "a new manifest is not synced before it is renamed",
    UNNAMED_MANIFEST "unnamed-manifest" "the directory is not synced after a new manifest is renamed",
    UNSYNCED_JOURNAL "unsynced-journal" "a group commit does not sync the journal",
    UNNAMED_JOURNAL "unnamed-journal" "the directory is not synced when a journal begins",
    UNSYNCED_JOURNAL_HEADER "unsynced-journal-header" "a new journal is not synced before it is renamed",
    UNSYNCED_CUT "unsynced-cut" "what recovery cuts off a manifest is not synced before more is appended",
    UNSETTLED_ORPHANS "unsettled-orphans" "files that a crash left go before it is durable that nobody needs them",
    UNNAMED_REPAIR "unnamed-repair" "the mark of an unfinished repair is not durable before there is a store",
    UNNAMED_REPAIR_END "unnamed-repair-end" "the directory is not synced after a repair's mark was removed",
    UNNAMED_DESTRUCTION "unnamed-destruction" "the directory is not synced after a store was destroyed",
    UNNAMED_FILES "unnamed-files" "a checkpoint does not sync the directory",
    UNNAMED_LATE_FILES "unnamed-late-files" "a checkpoint does not sync the directory again for files that came meanwhile",
    UNNAMED_STORE "unnamed-store" "the directory above a new store is not synced",
    UNSYNCED_BACKUP "unsynced-backup" "files of a backup are not synced",
    UNNAMED_BACKUP "unnamed-backup" "the directory of a backup is not synced before its manifest gets its name",
    MANIFEST_BEFORE_ITS_DATA "manifest-before-its-data" "a new manifest is renamed before it is synced",
    LENGTHS_NOT_RECORDED "lengths-not-recorded" "a checkpoint does not record the lengths of logs",
    HELD_FILES_GONE "held-files-gone" "files of the last checkpoint go at once when they are replaced",
    NOT_REVOKED "not-revoked" "a failed sync does not revoke what was vouched for",
    FAILED_WRITE_NOT_REVOKED "failed-write-not-revoked" "a write that failed in a log of several writers is not revoked",
    NOT_READ_ONLY "not-read-only" "a failed sync does not make the store read-only",
    IDENTITY_IGNORED "identity-ignored" "a page cache is trusted whichever it is",
    SUBVOLUME_IGNORED "subvolume-ignored" "a snapshot of a subvolume of Btrfs counts as the subvolume itself",
    DEAD_VERSIONS_FORGOTTEN "dead-versions-forgotten" "recovery does not note the versions that died",
    DEAD_BATCHES_FORGOTTEN "dead-batches-forgotten" "recovery does not note the batches that died",
    VERSIONS_REUSED "versions-reused" "a new epoch begins with versions that a dead one used",
    JOURNAL_NOT_REPLAYED "journal-not-replayed" "recovery does not read the journal",
    WRITE_BUFFER_NOT_RECOVERED "write-buffer-not-recovered" "recovery does not read the write buffer",
    WRITE_BUFFER_ALWAYS_RECOVERED "write-buffer-always-recovered" "recovery reads the write buffer after a loss of power, too",
    COMMIT_LEFT_OUT "commit-left-out" "the commit record of a batch over several logs is not written",
    APPEND_NOT_UNDONE "append-not-undone" "a failed append is not taken back",
    LOG_CHECKSUM_SKIPPED "log-checksum-skipped" "checksums of records are not looked at",
    LOOK_AHEAD_SHORT "look-ahead-short" "what follows 64 KiB behind damage is taken for the torn end of a file",
    HOLES_FORGOTTEN "holes-forgotten" "a damaged record of a log is read as if it had never been written",
    TABLE_CHECKSUM_SKIPPED "table-checksum-skipped" "checksums of tables' blocks are not looked at",
    HEADER_CHECKSUM_SKIPPED "header-checksum-skipped" "checksums of headers are not looked at",
    REBALANCE_UNTOLD "rebalance-untold" "the manifest is not told of a rebalance",
    SPLIT_OUTSIDE "split-outside" "a chunk is split at a key of another one, and nobody asks whether that can be opened again",
    MERGE_UNTOLD "merge-untold" "the manifest is not told of two chunks that became one",
    DELETES_FORGOTTEN "deletes-forgotten" "a merge of a chunk's newest files drops deletes of what older files hold",
    LOGS_NOT_COMPRESSED "logs-not-compressed" "logs of a keyspace that compresses stay as they are",
    FILES_LEFT_BEHIND "files-left-behind" "neither opening nor closing merges what many openings left",
    FILES_NOT_SHARED "files-not-shared" "each store of a process keeps as many tables open as if it were the only one",
    MANIFEST_NEVER_REWRITTEN "manifest-never-rewritten" "a manifest grows with every opening",
    SNAPSHOT_VERSIONS_DROPPED "snapshot-versions-dropped" "a rebalance keeps only the newest version of a key",
    PENDING_WAIT_SKIPPED "pending-wait-skipped" "a snapshot does not wait for the writes that belong to it",
    INPUTS_UNLINKED "inputs-unlinked" "a merge of logs removes them at once, and not after the next checkpoint",
    CLAIMS_IGNORED "claims-ignored" "two merges of a layout over levels take tables from the same group",
    STRIPES_NOT_TAKEN "stripes-not-taken" "a write to a layout over levels locks none of its keys",
    SECOND_PASS_SKIPPED "second-pass-skipped" "the validation under locks is left out, as the one before them found no conflict",
    INDEXED_UNDER_WRITERS "indexed-under-writers" "a sealed generation is indexed while a writer is in it",
    MERGE_UNTOLD_OF_LEVELS "merge-untold-of-levels" "the manifest does not learn of a merge of logs or guards",
    ADOPTED_BELOW_OTHERS "adopted-below-others" "a log in key order goes below tables with the same keys",
    GUARD_KEPT_ABOVE "guard-kept-above" "a guard is deleted in the last level and stays in the levels above",
    GUARD_WITHOUT_ITS_TABLES "guard-without-its-tables" "a new guard is read without the tables that lie on both of its sides",
    SUNK_NEWEST_FIRST "sunk-newest-first" "the newest table of a guard moves to the next level, below older ones",
    RANGE_DELETES_LEFT "range-deletes-left" "a merge carries no range delete on to a guard that it has no key of",
    HIDDEN_UNCOUNTED "hidden-uncounted" "nobody knows what the few entries of a log hide",
    FULL_DISK_UNNOTICED "full-disk-unnoticed" "merges do not know that the disk is full, and free nothing for lack of room",
    LOOKED_ONCE "looked-once" "maintenance looks only at first for merges that are due",
    REFERRED_LOG_UNNAMED "referred-log-unnamed" "an opening takes logs that tables refer to for left behind",
    REFERRED_LOG_UNSYNCED "referred-log-unsynced" "tables refer to values in a log that no sync has made durable",
    REFERRED_LOG_UNCOUNTED "referred-log-uncounted" "a log goes with its keys, whatever tables refer to it",
    DROPPED_TOO_FAR "dropped-too-far" "the last dropped range of a table is recorded one key too far",
    ALLOCATION_LEFT "allocation-left" "a table keeps the space that was allocated for more than it has got",
    LOG_LEFT_OUT "log-left-out" "a merge of logs leaves out one in the middle of the others",
    DELETES_DROPPED_ABOVE "deletes-dropped-above" "a merge of logs drops deletes of keys that deeper tables have",
    LOGS_GONE_EARLY "logs-gone-early" "merged logs leave the view before the tables that replace them are in it",
    FLUSHED_ON_TOP "flushed-on-top" "the table of a flushed generation is put above newer generations",
    DELETES_NOT_FLUSHED "deletes-not-flushed" "a generation is flushed without its range deletes",
    INPUTS_NOT_NAMED "inputs-not-named" "the output of a merge that drops deletes does not say which files it replaces",
    PURGED_SILENTLY "purged-silently" "a dropped table goes without handing on which files it has replaced",
    VERSION_OFF_BY_ONE "version-off-by-one" "a scan sees what was written one version after its snapshot",
    MUNK_TOO_EARLY "munk-too-early" "a chunk in memory misses what was written while it was loaded",
    MUNK_GONE_TOO_EARLY "munk-gone-too-early" "a chunk in memory goes before its log can be searched",
    ROWS_NOT_OUTDATED "rows-not-outdated" "a put does not touch the row cache",
    ROWS_UNMARKED "rows-unmarked" "a write of a layout over levels does not touch the row cache",
    RETIRED_CHUNK_WRITTEN "retired-chunk-written" "a put goes to a chunk that was replaced meanwhile",
    RANGE_DELETE_MISSED "range-delete-missed" "a scan of files does not heed deleted ranges",
    NESTED_DELETE_MISSED "nested-delete-missed" "a search for range deletes ends at the first that does not cover the key",
    CONFLICT_IGNORED "conflict-ignored" "a transaction commits whatever happened to what it read",
    UPDATE_LOST "update-lost" "an update does not look whether its key was written meanwhile",
    BRAKE_OF_THE_LAST "brake-of-the-last" "writers are braked by the last keyspace's backlog, whatever the others' is",
    PREFIX_OF_SOME "prefix-of-some" "a key without a prefix, in an order that has prefixes, counts as one with the least",
    NEW_VALUE_COUNTED "new-value-counted" "an overwrite counts as garbage by the length of the new value",
    DURABLE_WITH_A_GAP "durable-with-a-gap" "a single write is made durable by the journal, whatever was written before it",
    BATCH_SEEN_IN_HALF "batch-seen-in-half" "the writes of a batch show one by one",
    MOMENT_OF_EACH_KEY "moment-of-each-key" "each key of a batch is read at a moment of its own",
    ERROR_OF_A_NEIGHBOUR "error-of-a-neighbour" "the error of a key of a batch is returned for the key beside it",
    LATE_RESULT_IGNORED "late-result-ignored" "a parallel search takes a result before a newer run has given its own",
    DELETE_IS_NO_RESULT "delete-is-no-result" "a parallel search takes a deleted key for one that the run lacks",
    BLOCK_OF_ANOTHER_LOAD "block-of-another-load" "a batch publishes a block that it has loaded as another one that it loads",
    UNREAD_PLACES_TRUSTED "unread-places-trusted" "places count as read when the ring that should read them has failed",
    PATH_RESOLVED_ANEW "path-resolved-anew" "an open store finds its files by the path it was given, whatever that means by now",
    LOCK_INODE_IGNORED "lock-inode-ignored" "a lock counts though its file has lost its name",
    RECOVERED_NOT_BACKED_UP "recovered-not-backed-up" "a backup of a store that is opened for reading lacks what was recovered in memory",
    ASKED_BEFORE_THE_LOCK "asked-before-the-lock" "the options are not compared with what is there once the lock is held",
}

#[cfg(feature = "canaries")]
mod planted {
    use super::Canary;
    use std::sync::OnceLock;

    static PLANTED: OnceLock<Canary> = OnceLock::new();

    impl Canary {
        /// Plants the bug with this name, for good; false if there is none, or another is planted.
        pub fn plant(name: &str) -> bool {
            let found = Self::ALL.iter().find(|canary| canary.name == name);
            found.is_some_and(|canary| PLANTED.set(*canary).is_ok())
        }

        pub(crate) fn is_planted(self) -> bool {
            PLANTED.get() == Some(&self)
        }
    }
}

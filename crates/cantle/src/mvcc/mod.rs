//! Versions, snapshots and recovery after a crash (EvenDB §3.2, §3.5).
//!
//! # The scheme
//!
//! One number, the *global version* (GV), orders everything. A snapshot takes GV's value as its
//! version and raises GV; a write only reads GV, so writes share versions and share no written
//! cache line. A snapshot with version `s` sees the newest entry of a key whose version is at most
//! `s`.
//!
//! A write reads GV at one moment and shows its entries at a later one. In between, a snapshot
//! could take the version that the write has, and miss the write. Therefore writes *announce*
//! themselves in the *pending operations* (PO, [`pending`]) before they read GV, and withdraw when
//! everything that they wrote can be read; a snapshot, after raising GV, waits for those announced
//! writes whose version is unknown or not above its own. Writes wait for nobody: an announced
//! writer must not wait for back-pressure, a sync, free space or another announcement. Gets look at
//! neither GV nor PO.
//!
//! ```text
//!   write                                     snapshot
//!   ─────                                     ────────
//!   claim a slot, store the span              lock the registry
//!   FENCE                                     register s = GV, raise GV to s + 1
//!   v = GV                                    unlock
//!   mark v as used, store v in the slot       FENCE
//!   write entries with version v              wait while a slot has a span that overlaps
//!   free the slot                               and a version unknown or <= s
//!                                             read
//! ```
//!
//! # Why a snapshot is consistent
//!
//! Let a snapshot have version `s`. Claim: when it starts to read, every write with a version `v <=
//! s` in its span is complete, and every later write has `v > s`. Hence the entries that it sees do
//! not change.
//!
//! The two fences are sequentially consistent, so one comes first.
//! * *The snapshot's first*: the write reads GV after its fence, so it reads at least `s + 1`: `v > s`.
//! * *The write's first*: the snapshot looks at the slot after its fence, so it finds this write's span or
//!   something newer in the slot. Newer means that this write has freed the slot: it is complete. Otherwise
//!   it finds the write pending and waits, unless the version there exceeds `s` or the spans are disjoint.
//!
//! A write that completed before the snapshot was asked for read GV before it: `v <= s`, so it is seen. A
//! write that began after another had completed has a version that is not smaller; hence each `s` is a
//! *prefix* of the history, which is what a checkpoint makes durable.
//!
//! *Reuse.* While no write has used the current version GV, a snapshot takes `s = GV - 1` and
//! raises nothing. The claim above holds as before: the thread that raised GV to `s + 1` did so
//! before the snapshot's fence. The snapshot also misses nothing that the caller could know of: a
//! write with version GV marks it as used before it shows an entry, so a thread that has seen such
//! an entry, or its completion, finds the mark and raises GV. Read-only work thus costs no
//! versions, and its snapshots share theirs.
//!
//! # Garbage
//!
//! A rebalance first seals its input, then asks for the [`open
//! versions`](clock::Mvcc::open_versions), and keeps the newest entry of each key and those that an
//! open version sees ([`keep`]). A snapshot that registers after that has a version at least as
//! high as every entry in the sealed input (a used version is never taken again without raising
//! GV), so it needs only the newest. Registering and raising are one step under the registry's
//! lock, so no snapshot stands between the two.
//!
//! # Epochs
//!
//! A version is one `u64` that never restarts. An epoch is an interval of versions: its first
//! version is greater than every version that the previous epoch could have written (the *ceiling*,
//! which was made durable before versions below it were used). Nothing wraps: a million snapshots a
//! second would take 580,000 years. The [`recovery_table`] lists the versions of older epochs to
//! ignore, and the fate of batches that spanned several chunks; while a process lives, a [`commit`]
//! cell decides for each of these.

mod batches;
pub mod clock;
pub mod commit;
pub mod keep;
pub mod key_locks;
pub mod pending;
pub mod range_index;
#[cfg(test)]
mod range_index_tests;
pub mod recovery;
pub mod recovery_table;
mod unjournaled;

#[cfg(test)]
mod tests;

pub use batches::Batches;
pub use clock::{Announced, Mvcc, SnapshotGuard};
pub use commit::CommitCell;
pub use keep::Keep;
pub use pending::KeySpan;
pub use recovery::Recovery;
pub use recovery_table::{DeadBatches, EpochBatches, RecoveryTable};
pub use unjournaled::Unjournaled;

//! The row cache: popular single pairs that are not in memory otherwise (EvenDB §4).
//!
//! The paper keeps rows in a queue of hash tables. Here they lie in *segments* of mapped memory
//! (`segment`). The oldest segment is freed first, except for its rows that are read again
//! (`shard`). Freed memory goes back to the system whole, so the charged bytes are the bytes in
//! use. A row need not be updated to be detected as outdated: a put marks its key's *stripe*, one
//! of many counters, and a row counts only while its stripe has the value that it had when the row
//! was read.
//!
//! ```text
//!   get, not cached            put                        get, cached
//!   ───────────────            ───                        ───────────
//!   stamp = stripe             enter the stripe           row = lookup
//!   read the files             show the entry             stamp == stripe, nobody in it?
//!   insert (stamp, value)      leave it: stripe + 1         then it is the newest value
//!                              cached? then stamp = stripe,
//!                                replace (stamp, value)
//! ```
//!
//! *Why a row is never stale.* Let a put have shown its entry. A row of an older value was read, at
//! least in part, before that, so its stamp was taken before the put left the stripe: from then on
//! it does not count. Between entering and leaving, no row of the stripe counts, so no get returns
//! an old row after another get has returned the new entry. Range deletes and dropped chunks mark
//! the whole keyspace in the same way.
//!
//! *Why a put may replace the row.* It holds the lock of the key (or its chunk) meanwhile: its value is
//! the newest when it takes the stamp, and any later writer of the key enters the stripe. As in the
//! paper, a put makes no row of a key that was not read.
//!
//! Thread safety: all methods may be called from any thread; puts and gets wait here for nothing
//! but the lock of a shard. A row that was found is lent without this lock, and does not change
//! until its last reference is dropped.

mod ghost;
#[expect(clippy::module_inception, reason = "named for what it is, and so is the file")]
mod rows;
mod segment;
mod shard;

#[cfg(test)]
mod hit_tests;
#[cfg(test)]
mod segment_tests;
#[cfg(test)]
mod tests;

pub(crate) use rows::{Row, RowCache, Rows, Stripe};

//! The row cache: popular single pairs of chunks that are not in memory (EvenDB §4).
//!
//! The paper keeps rows in a queue of hash tables. Here they lie in *segments* of mapped memory (`segment`), which are
//! given up oldest first but for the rows that are read again (`shard`): memory that is given up goes back to the system
//! whole, and what is accounted for is what is there. Whether a row is current does not depend on its being updated: a
//! put marks its key's *stripe*, one of many counters, and a row counts only while its stripe stands where it stood when
//! the row was read.
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
//! *Why a row is never stale.* Let a put have shown its entry. A row of an older value was read, at least in part,
//! before that, so its stamp was taken before the put left the stripe: from then on it does not count. Between
//! entering and leaving no row of the stripe counts, so nobody reads an old row after somebody else has read the
//! new entry. Range deletes and dropped chunks mark the whole keyspace in the same way.
//!
//! *Why a put may replace the row.* It holds the lock of the key's chunk until it has: its value is the newest when it
//! takes the stamp, and whoever writes the key after it enters the stripe. As in the paper, a put makes no row of what
//! nobody has read.
//!
//! Thread safety: all methods may be called from any thread; puts and gets wait for nobody here but a cache
//! shard's lock. What was found is lent without it, and what is lent stays as it is until it is let go.

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

pub(crate) use rows::{RowCache, Rows, Stripe};
pub(crate) use segment::LentRow;

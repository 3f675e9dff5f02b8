//! The layout `flsm`: PebblesDB's fragmented log-structured merge tree, as a policy of `lsm`.
//!
//! *Guards* divide the keys of a level into disjoint spans; the tables of a guard may overlap
//! (PebblesDB §3.1). A merge writes *fragments*: it appends a table to each guard of the next level
//! that its keys belong to, and rewrites nothing there (§3.4). The first guard of a level has no
//! smallest key: it is the paper's *sentinel*.
//!
//! Guards are chosen from the data: when all tables of a guard of the last level are merged, the
//! output is cut where neighbouring keys share the fewest leading bytes, and each part becomes a
//! guard. With `top_level_bits`, they are chosen by the hash of keys instead (§3.2): [`hashed`].

#[cfg(test)]
mod buffered_tests;
#[cfg(test)]
mod deleted_tests;
#[cfg(test)]
mod documented;
mod dropped;
#[cfg(test)]
mod dropped_tests;
pub mod factory;
#[cfg(test)]
mod filter_tests;
#[cfg(test)]
mod flush_tests;
#[cfg(test)]
mod full_disk_tests;
mod hashed;
#[cfg(test)]
mod hashed_tests;
mod levels;
#[cfg(test)]
mod life_tests;
#[cfg(test)]
mod long_value_more_tests;
#[cfg(test)]
mod long_value_tests;
#[cfg(test)]
mod many_deletes_tests;
#[cfg(test)]
mod ordered_tests;
#[cfg(test)]
mod parallel_tests;
mod pick;
#[cfg(test)]
pub mod pick_tests;
#[cfg(test)]
mod repair_tests;
#[cfg(test)]
mod row_tests;
mod shape;
#[cfg(test)]
mod size_tests;
#[cfg(test)]
mod space_tests;
mod tally;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tuning_tests;

//! Rewriting chunks: when (`maintain`), how (`rebalance`, `tier`, `compress`), and the change of
//! the index (`replace`, with `split` and `split_tail` for the places of cuts; `join`).

mod compress;
mod histogram;
mod jobs;
mod join;
pub(super) mod maintain;
#[expect(clippy::module_inception, reason = "named for what it is, and so is the folder")]
pub(super) mod rebalance;
mod replace;
mod shared_garbage;
mod split;
mod split_tail;
#[cfg(test)]
mod split_tail_tests;
#[cfg(test)]
pub(super) mod split_tests;
pub(super) mod tier;

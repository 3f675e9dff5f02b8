//! Stacks of runs: sorted tables and indexed logs, newest first, under bounds of keys.
//!
//! A *run* is a table or an indexed log, limited to a span of keys ([`run`]). A *stack* is a list
//! of runs, newest first ([`stack`]): an entry in an earlier run hides the entries of its key in
//! later ones. Gets ([`get`], and [`search`] in several
//! runs at the same time) and merged walks ([`merged`]) read a stack. [`writer`] writes the
//! entries that a merge keeps to tables, cut where neighbouring keys share the fewest leading bytes
//! ([`cut`]).

pub mod approximate;
pub mod carried;
pub mod changed;
pub mod cut;
mod deleted_stretches;
#[cfg(test)]
mod deleted_tests;
pub mod dropped_ranges;
pub mod env;
pub mod get;
pub mod held;
pub mod merged;
pub mod record;
pub mod referred;
pub mod retain;
#[expect(clippy::module_inception, reason = "named for what it is, and so is the folder")]
pub mod run;
pub mod search;
#[cfg(test)]
mod search_tests;
pub mod stack;
pub mod sync_together;
#[cfg(test)]
mod tests;
pub mod visible;
pub mod walk;
pub mod writer;

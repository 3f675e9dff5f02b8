//! Stacks of runs: sorted tables and indexed logs, newest first, under bounds of keys.
//!
//! A *run* is a table or an indexed log, as far as it counts where it lies ([`run`]); a *stack* is a list of them, newest
//! first ([`stack`]): what an earlier run says of a key hides what later ones say. Gets ([`get`]) and merged walks
//! ([`merged`]) read a stack; [`writer`] writes what a merge keeps as tables, cut where neighbours share least ([`cut`]).

pub mod changed;
pub mod cut;
mod deleted_stretches;
pub mod env;
pub mod get;
pub mod held;
pub mod merged;
pub mod retain;
#[expect(clippy::module_inception, reason = "named for what it is, and so is the folder")]
pub mod run;
pub mod stack;
#[cfg(test)]
mod tests;
pub mod visible;
pub mod writer;

//! Stacks of runs: sorted tables and indexed logs, newest first, under bounds of keys.

pub mod env;

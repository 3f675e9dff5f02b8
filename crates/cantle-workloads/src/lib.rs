//! The workloads of the papers: which operations, in which mix, on which records, and traces of them as text; and their
//! sizes and times as people type them.
//!
//! `cantle bench` and the lab under `bench/` run the same ones. Nothing here knows a store: everything is a
//! function of its parameters and a seed, so that a run is repeated exactly by naming both.

pub mod analytics;
pub mod generator;
pub mod population;
pub mod records;
pub mod size;
pub mod trace;
pub mod workload;

//! The workloads of the papers: which operations, in which mix, on which records, and traces of them as text.
//!
//! `cantle bench` and the lab under `bench/` run the same ones. Nothing here knows a store: everything is a
//! function of its parameters and a seed, so that a run is repeated exactly by naming both.

pub mod analytics;
pub mod generator;
pub mod population;
pub mod records;
pub mod trace;
pub mod workload;

//! The workloads of the papers: operations, mixes, and choices of records; traces of them as text;
//! and parsers of sizes and times.
//!
//! `cantle bench` and the lab under `bench/` run the same workloads. Nothing here knows a store:
//! everything is a function of its parameters and a seed, so that both together repeat a run
//! exactly.

pub mod analytics;
pub mod generator;
pub mod population;
pub mod records;
pub mod size;
pub mod trace;
pub mod workload;

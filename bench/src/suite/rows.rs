//! Rows of a table of goals: a quantity of a cell, with bounds on it or on its ratio to a rival's.

use crate::engine::Spec;
use crate::record::{Measured, Outcome};

/// One row.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name.
    pub title: String,
    /// The cell's name.
    pub cell: String,
    /// The quantity.
    pub quantity: Quantity,
    /// Bounds that are the project's goal.
    pub goals: Vec<Bound>,
    /// Bounds below which the row is lost.
    pub musts: Vec<Bound>,
}

/// A bound on the ratio to a rival's quantity: a minimum if more is better, else a maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The rival.
    pub against: Against,
    /// The bound.
    pub at: f64,
}

/// The rival of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Against {
    /// None: the bound is on the quantity itself.
    Nothing,
    /// RocksDB's best configuration with levels.
    Leveled,
    /// RocksDB's best configuration with tiers.
    Universal,
    /// RocksDB's best configuration.
    RocksDb,
    /// Cantle, if a get searches one tree after the other.
    OneByOne,
}

impl Against {
    /// True for a rival's configuration.
    pub fn is_one(self, engine: &Spec) -> bool {
        match self {
            Self::Nothing => false,
            Self::Leveled => engine.is_rocksdb() && !engine.is_universal(),
            Self::Universal => engine.is_universal(),
            Self::RocksDb => engine.is_rocksdb(),
            Self::OneByOne => engine.settings.get("parallel_search").is_some_and(|at_once| at_once == "1"),
        }
    }

    /// The name of the rival; empty without one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Leveled => "leveled",
            Self::Universal => "universal",
            Self::RocksDb => "RocksDB",
            Self::OneByOne => "one tree after the other",
        }
    }
}

/// The quantity of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantity {
    /// Bytes that the process wrote in these steps per byte that the user wrote in the first.
    Written(&'static [&'static str]),
    /// Thousand operations of the first of these steps per second of all of them.
    Rate(&'static [&'static str]),
    /// Operations per second of the first step in percent of those of the second.
    Kept(&'static str, &'static str),
    /// Bytes on disk per live byte after the step.
    Space(&'static str),
    /// The most bytes on disk per live byte during these steps, less complete logs that were not merged and 64 MB.
    Peak(&'static [&'static str]),
    /// Gets per second of the first step per get per second of the second.
    Gets(&'static str, &'static str),
    /// Bytes on disk after the step, in percent of the most that Cantle's default bound allows.
    SpaceOfBound(&'static str),
    /// The longest delay of the step that the store imposes, in ms: the brake's, if the store reports it,
    /// else the longest operation that writes.
    LongestDelay(&'static str),
    /// The longest write of the step, in ms.
    LongestWrite(&'static str),
    /// The peak of resident memory over all steps above the budget, in MiB.
    ResidentOverBudget,
    /// Time to open the store, in ms.
    Open,
    /// The first operation of the step, in ms.
    First(&'static str),
    /// Half of the gets of the step took at most this long, in ms.
    Get50(&'static str),
    /// 99 of 100 gets of the step took at most this long, in ms.
    Get99(&'static str),
}

const MIB: f64 = (1 << 20) as f64;

/// Cantle's default bound on space: bytes on disk per live byte, and the allowance of small data beside
/// it, at most this many bytes per live byte.
const BOUND: f64 = 1.5;
const BOUND_MAX: f64 = 3.0;

impl Quantity {
    /// True if more is better.
    pub fn is_gain(self) -> bool {
        matches!(self, Self::Rate(_) | Self::Kept(..) | Self::Gets(..))
    }

    /// The unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Written(_) => "B/B",
            Self::Rate(_) => "k/s",
            Self::Kept(..) | Self::SpaceOfBound(_) => "%",
            Self::Space(_) | Self::Peak(_) | Self::Gets(..) => "×",
            Self::LongestDelay(_)
            | Self::LongestWrite(_)
            | Self::Open
            | Self::First(_)
            | Self::Get50(_)
            | Self::Get99(_) => "ms",
            Self::ResidentOverBudget => "MiB",
        }
    }

    /// The steps that it is made of; none means all.
    pub fn steps(self) -> Vec<&'static str> {
        match self {
            Self::Written(steps) | Self::Rate(steps) | Self::Peak(steps) => steps.to_vec(),
            Self::Kept(one, other) | Self::Gets(one, other) => vec![one, other],
            Self::Space(step)
            | Self::SpaceOfBound(step)
            | Self::LongestDelay(step)
            | Self::LongestWrite(step)
            | Self::First(step)
            | Self::Get50(step)
            | Self::Get99(step) => vec![step],
            Self::ResidentOverBudget | Self::Open => Vec::new(),
        }
    }

    /// The value in one turn with a store of this budget; `None` if there is none.
    pub fn of(self, outcome: &Outcome, budget_bytes: u64) -> Option<f64> {
        let step = |name: &str| outcome.steps.get(name);
        match self {
            Self::Written(steps) => written(outcome, steps),
            Self::Rate(steps) => {
                let first = step(steps.first()?)?;
                let all = steps.iter().map(|name| Some(step(name)?.duration_s(steps.len() > 1)));
                positive(first.operations as f64 / all.sum::<Option<f64>>()? / 1e3)
            }
            Self::Kept(one, other) => positive(step(one)?.throughput() / step(other)?.throughput() * 100.0),
            Self::Space(name) => positive(step(name)?.space.amplification_end()),
            Self::Peak(steps) => {
                let peaks = steps.iter().filter_map(|name| step(name)?.space.peak);
                peaks.map(|peak| peak.ratio()).max_by(f64::total_cmp)
            }
            Self::Gets(one, other) => {
                let rate = |name: &str| step(name).map(|measured| measured.gets as f64 / measured.seconds);
                positive(rate(one)? / rate(other)?)
            }
            Self::SpaceOfBound(name) => {
                let sample = step(name)?.space.samples.last()?;
                let live = sample.live_bytes as f64;
                let allowance = (budget_bytes as f64 / 2.0).min(512.0 * MIB) + 32.0 * MIB;
                let most = (live * BOUND).max((live + allowance).min(live * BOUND_MAX));
                positive(sample.disk_bytes as f64 / most * 100.0)
            }
            Self::LongestDelay(name) => {
                let measured = step(name)?;
                brake_longest_ms(measured).or_else(|| write_longest_ms(measured))
            }
            Self::LongestWrite(name) => write_longest_ms(step(name)?),
            Self::ResidentOverBudget => {
                let peak =
                    outcome.steps.values().filter_map(|measured| measured.peak_resident_bytes).max()?;
                Some((peak as f64 - budget_bytes as f64) / MIB)
            }
            Self::Open => Some(outcome.open_ms),
            Self::First(name) => Some(step(name)?.first_ns? as f64 / 1e6),
            Self::Get50(name) => positive(step(name)?.latency.get("get")?.p50_ns as f64 / 1e6),
            Self::Get99(name) => positive(step(name)?.latency.get("get")?.p99_ns as f64 / 1e6),
        }
    }

    /// Quantities that belong beside it: the same bytes by other counts, and those of reads; other delays.
    pub fn beside(self, outcome: &Outcome) -> String {
        let mut parts = Vec::new();
        match self {
            Self::Written(steps) => {
                let user = steps.first().and_then(|name| outcome.steps.get(*name));
                let user = user.map_or(0.0, |measured| measured.user_bytes_written as f64);
                let mut add = |name: &str, bytes: Option<f64>| {
                    if let Some(bytes) = bytes.filter(|_| user > 0.0) {
                        parts.push(format!("{name} {:.2}", bytes / user));
                    }
                };
                let of = |is_wanted: &dyn Fn(&str) -> bool, count: fn(&Measured) -> Option<f64>| {
                    let wanted = outcome.steps.iter().filter(|(name, _)| is_wanted(name));
                    wanted.map(|(_, measured)| count(measured)).sum::<Option<f64>>()
                };
                let is_own = |name: &str| steps.contains(&name);
                add(
                    "less what was cancelled",
                    of(&is_own, |measured| Some(measured.counters.written_bytes as f64)),
                );
                add("by the device", of(&is_own, |measured| Some(measured.device?.written_bytes as f64)));
                add("merges that reads caused", of(&|name| !is_own(name), |measured| Some(whole(measured))));
            }
            Self::LongestDelay(name) => {
                let Some(measured) = outcome.steps.get(name) else { return String::new() };
                let mut add = |name: &str, ms: Option<f64>| {
                    parts.extend(ms.map(|ms| format!("{name} {ms:.1} ms")));
                };
                add("longest write", write_longest_ms(measured));
                add("longest append of a bare writer", measured.append_longest_ns.map(|ns| ns as f64 / 1e6));
                add("all delays of the brake", figure_ms(measured, "write_delay_total"));
                parts.push(format!("in {:.0} s", measured.seconds));
            }
            _ => {}
        }
        parts.join(", ")
    }
}

impl Measured {
    /// The time of the step; with the sync after it, if other steps follow it.
    fn duration_s(&self, with_sync: bool) -> f64 {
        self.seconds + if with_sync { self.sync_s } else { 0.0 }
    }
}

/// All bytes that a step made dirty, also those that were removed before the device wrote them.
fn whole(measured: &Measured) -> f64 {
    measured.counters.dirtied_bytes as f64
}

fn written(outcome: &Outcome, steps: &[&str]) -> Option<f64> {
    let user = outcome.steps.get(*steps.first()?)?.user_bytes_written as f64;
    let all = steps.iter().map(|name| outcome.steps.get(*name).map(whole)).sum::<Option<f64>>()?;
    (user > 0.0).then(|| all / user)
}

fn figure_ms(measured: &Measured, name: &str) -> Option<f64> {
    let part = |unit: &str| measured.figures.get(&format!("{name}.{unit}")).copied();
    Some(part("secs")? * 1e3 + part("nanos")? / 1e6)
}

fn brake_longest_ms(measured: &Measured) -> Option<f64> {
    figure_ms(measured, "write_delay_longest")
}

fn write_longest_ms(measured: &Measured) -> Option<f64> {
    let writes = ["put", "insert", "read-modify-write"].iter().filter_map(|kind| measured.latency.get(*kind));
    writes.map(|latencies| latencies.max_ns).max().map(|ns| ns as f64 / 1e6)
}

fn positive(value: f64) -> Option<f64> {
    (value > 0.0 && value.is_finite()).then_some(value)
}

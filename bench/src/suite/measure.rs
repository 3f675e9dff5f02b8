//! Measures of a trial, with their units and their directions.

use crate::record::Outcome;

/// One measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Operations per second.
    Throughput,
    /// Bytes that the process made dirty per byte that the user wrote.
    WriteAmplification,
    /// Bytes that the store handed to the kernel per byte that the user wrote.
    UserWriteAmplification,
    /// Bytes that the device wrote during the step per byte that the user wrote.
    DeviceWriteAmplification,
    /// Bytes fetched from the device per byte that the user read.
    ReadAmplification,
    /// System calls that read, per get.
    ReadCalls,
    /// 95 of 100 puts took at most this long, in milliseconds.
    PutP95,
    /// Half of the gets took at most this long, in milliseconds.
    GetP50,
    /// 95 of 100 gets took at most this long, in milliseconds.
    GetP95,
    /// 99 of 100 gets took at most this long, in milliseconds.
    GetP99,
    /// 9,999 of 10,000 operations of the slowest kind took at most this long, in milliseconds.
    WorstP9999,
    /// The longest operation, in milliseconds.
    Longest,
    /// The share of seconds below a tenth of the median, in percent.
    SlowSeconds,
    /// The slowest second as a share of the median one, in percent.
    SlowestSecond,
    /// Bytes on disk per live byte at the end.
    Space,
    /// Maximum over time of bytes on disk per live byte.
    SpaceMax,
    /// Mean over time of bytes on disk per live byte.
    SpaceMean,
    /// Duration in seconds. The papers' tables have hours.
    Duration,
    /// Seconds of processor time.
    ProcessorTime,
    /// Microseconds of processor time per operation.
    ProcessorPerOperation,
    /// Thousands of cycles per operation.
    Cycles,
    /// Megabytes read.
    Read,
    /// Megabytes that the process made dirty, also those that were removed before the device wrote them.
    Dirtied,
    /// Megabytes written.
    Written,
    /// Megabytes that the device wrote.
    DeviceWritten,
    /// Number of tables.
    Tables,
    /// Mean size of the tables, in MB.
    TableMean,
    /// Median size of the tables, in MB.
    TableMedian,
    /// 90 of 100 tables are at most this large, in MB.
    TableP90,
    /// 95 of 100 tables are at most this large, in MB.
    TableP95,
    /// The longest first operation of a thread, in milliseconds.
    First,
    /// Peak resident memory in MiB.
    Resident,
    /// Milliseconds until the store is open.
    Open,
    /// Thousands of random block reads per second of the store's files, measured before its turn.
    DeviceReads,
}

impl Measure {
    /// The heading of the measure.
    pub fn title(self) -> &'static str {
        match self {
            Self::Throughput => "thousand operations/s",
            Self::WriteAmplification => "bytes written (kernel's count) per user byte",
            Self::UserWriteAmplification => "bytes handed to the kernel per user byte",
            Self::DeviceWriteAmplification => "bytes written by the device per user byte",
            Self::ReadAmplification => "bytes read from the device per user byte",
            Self::ReadCalls => "read calls per get",
            Self::PutP95 => "put p95, ms",
            Self::GetP50 => "get p50, ms",
            Self::GetP95 => "get p95, ms",
            Self::GetP99 => "get p99, ms",
            Self::WorstP9999 => "p99.99, ms",
            Self::Longest => "longest, ms",
            Self::SlowSeconds => "seconds below 1/10 of the median, %",
            Self::SlowestSecond => "slowest second, % of the median",
            Self::Space => "bytes on disk per live byte, at the end",
            Self::SpaceMax => "bytes on disk per live byte, at most",
            Self::SpaceMean => "bytes on disk per live byte, on average",
            Self::Duration => "duration, s",
            Self::ProcessorTime => "processor time, s",
            Self::ProcessorPerOperation => "processor time per operation, µs",
            Self::Cycles => "thousand cycles per operation",
            Self::Read => "read, MB",
            Self::Dirtied => "written by the process, MB",
            Self::Written => "written, MB",
            Self::DeviceWritten => "written by the device, MB",
            Self::Tables => "tables",
            Self::TableMean => "mean, MB",
            Self::TableMedian => "median, MB",
            Self::TableP90 => "p90, MB",
            Self::TableP95 => "p95, MB",
            Self::First => "first operation, ms",
            Self::Resident => "peak resident, MiB",
            Self::Open => "opening, ms",
            Self::DeviceReads => "blocks/s that the device read before the turn, thousand",
        }
    }

    /// True if more is better.
    pub fn is_gain(self) -> bool {
        matches!(self, Self::Throughput | Self::SlowestSecond)
    }

    /// The value for a step; `None` if there is none.
    pub fn of(self, outcome: &Outcome, step: &str) -> Option<f64> {
        match self {
            Self::Open => return Some(outcome.open_ms),
            Self::DeviceReads => return outcome.device_reads.map(|reads| reads / 1e3),
            _ => {}
        }
        let measured = outcome.steps.get(step)?;
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let written = measured.user_bytes_written as f64;
        let operations = measured.operations as f64;
        let worst = |of: fn(&crate::measure::latency::Percentiles) -> u64| {
            measured.latency.values().map(of).max().map(|ns| ns as f64 / 1e6)
        };
        match self {
            Self::Throughput => {
                (measured.seconds > 0.0 && measured.operations > 0).then(|| measured.throughput() / 1e3)
            }
            Self::WriteAmplification => ratio(measured.counters.written_bytes as f64, written),
            Self::UserWriteAmplification => ratio(measured.counters.write_call_bytes as f64, written),
            Self::DeviceWriteAmplification => ratio(measured.device?.written_bytes as f64, written),
            Self::ReadAmplification => {
                ratio(measured.counters.read_bytes as f64, measured.user_bytes_read as f64)
            }
            Self::ReadCalls => ratio(measured.counters.read_calls as f64, measured.gets as f64),
            Self::PutP95 => Some(measured.latency.get("put")?.p95_ns as f64 / 1e6),
            Self::GetP50 => Some(measured.latency.get("get")?.p50_ns as f64 / 1e6),
            Self::GetP95 => Some(measured.latency.get("get")?.p95_ns as f64 / 1e6),
            Self::GetP99 => Some(measured.latency.get("get")?.p99_ns as f64 / 1e6),
            Self::WorstP9999 => worst(|percentiles| percentiles.p99_99_ns),
            Self::Longest => worst(|percentiles| percentiles.max_ns),
            Self::SlowSeconds => Some(measured.timeline.stalls.slow_seconds_share * 100.0),
            Self::SlowestSecond => Some(measured.timeline.stalls.slowest_second_share * 100.0),
            Self::Space => positive(measured.space.amplification_end()),
            Self::SpaceMax => positive(measured.space.amplification_max()),
            Self::SpaceMean => positive(measured.space.amplification_mean()),
            Self::Duration => Some(measured.seconds),
            Self::ProcessorTime => Some(measured.counters.processor_s),
            Self::ProcessorPerOperation => ratio(measured.counters.processor_s * 1e6, operations),
            Self::Cycles => ratio(measured.cycles? as f64 / 1e3, operations),
            Self::Read => Some(measured.counters.read_bytes as f64 / 1e6),
            Self::Written => Some(measured.counters.written_bytes as f64 / 1e6),
            Self::Dirtied => Some(measured.counters.dirtied_bytes as f64 / 1e6),
            Self::DeviceWritten => Some(measured.device?.written_bytes as f64 / 1e6),
            Self::Tables => Some(measured.table_sizes?.tables as f64),
            Self::TableMean => Some(measured.table_sizes?.mean / 1e6),
            Self::TableMedian => Some(measured.table_sizes?.p50 as f64 / 1e6),
            Self::TableP90 => Some(measured.table_sizes?.p90 as f64 / 1e6),
            Self::TableP95 => Some(measured.table_sizes?.p95 as f64 / 1e6),
            Self::First => Some(measured.first_ns? as f64 / 1e6),
            Self::Resident => Some(measured.peak_resident_bytes? as f64 / f64::from(1 << 20)),
            Self::Open | Self::DeviceReads => None,
        }
    }
}

fn positive(value: f64) -> Option<f64> {
    (value > 0.0).then_some(value)
}

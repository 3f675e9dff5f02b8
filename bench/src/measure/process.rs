//! Counters of the kernel for this process, and for the device that a directory is on.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Counters of a process (`/proc/self/io`, rusage) at one moment, or the difference of two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes read from the device for the process.
    pub read_bytes: u64,
    /// Bytes of pages that it made dirty, less those that were truncated before they were written.
    pub written_bytes: u64,
    /// Bytes of pages that it made dirty, also those that were truncated, or whose file was removed, before
    /// they were written.
    #[serde(default)]
    pub dirtied_bytes: u64,
    /// Bytes that system calls passed to the kernel: the bytes that the store chose to write.
    pub write_call_bytes: u64,
    /// Bytes that system calls requested from the kernel.
    pub read_call_bytes: u64,
    /// System calls that read.
    pub read_calls: u64,
    /// System calls that write.
    pub write_calls: u64,
    /// Seconds of processor time over all threads.
    pub processor_s: f64,
    /// The part of this time inside of the kernel, which counts it in ticks of 10 ms.
    pub system_s: f64,
}

impl Counters {
    /// Since the process began.
    pub fn now() -> Self {
        let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let count = |name| field(&text, name).unwrap_or(0);
        Self {
            read_bytes: count("read_bytes:"),
            written_bytes: count("write_bytes:").saturating_sub(count("cancelled_write_bytes:")),
            dirtied_bytes: count("write_bytes:"),
            write_call_bytes: count("wchar:"),
            read_call_bytes: count("rchar:"),
            read_calls: count("syscr:"),
            write_calls: count("syscw:"),
            processor_s: processor_s(),
            system_s: system_s().unwrap_or(0.0),
        }
    }

    /// The difference to `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            dirtied_bytes: self.dirtied_bytes.saturating_sub(earlier.dirtied_bytes),
            write_call_bytes: self.write_call_bytes.saturating_sub(earlier.write_call_bytes),
            read_call_bytes: self.read_call_bytes.saturating_sub(earlier.read_call_bytes),
            read_calls: self.read_calls.saturating_sub(earlier.read_calls),
            write_calls: self.write_calls.saturating_sub(earlier.write_calls),
            processor_s: self.processor_s - earlier.processor_s,
            system_s: self.system_s - earlier.system_s,
        }
    }
}

fn processor_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Processor time of the calling thread, without that of other processes.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Field 15 of `/proc/self/stat`; the name in field 2 may hold blanks.
fn system_s() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().nth(12)?.parse::<f64>().ok()? / 100.0)
}

/// The first number after `name` at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Peak resident memory of the process since it began or since [`reset_peak_resident`].
pub fn peak_resident_bytes() -> Option<u64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:").map(|kib| kib * 1024)
}

/// Resets the peak to the present resident memory, if the kernel allows it.
pub fn reset_peak_resident() {
    // If it is not allowed, the peak is that since the process began, and larger.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Bytes that the block device of a directory has read and written, for all processes; only
/// meaningful on an idle machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCounters {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl DeviceCounters {
    /// The counters since the machine started; `None` if the directory is not on a block device.
    pub fn of(dir: &Path) -> Option<Self> {
        let device = rustix::fs::stat(dir).ok()?.st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
        let number = |at: usize| text.split_whitespace().nth(at)?.parse::<u64>().ok();
        // Sectors are 512 bytes here, independent of the device.
        Some(Self { read_bytes: number(2)? * 512, written_bytes: number(6)? * 512 })
    }

    /// The difference to `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computing_and_writing_are_counted() {
        let before = Counters::now();
        let path = tempfile::NamedTempFile::new().unwrap();
        fs::write(path.path(), vec![1; 3 << 20]).unwrap();
        let started = std::time::Instant::now();
        let mut sum = 0u64;
        while started.elapsed().as_millis() < 50 {
            sum = std::hint::black_box(sum.wrapping_mul(3) + 1);
        }
        let counted = Counters::now().since(before);
        assert!(counted.write_call_bytes >= 3 << 20, "{counted:?}");
        assert!(counted.dirtied_bytes >= counted.written_bytes, "{counted:?}");
        assert!(counted.processor_s > 0.0, "{counted:?}");
    }

    #[test]
    fn sleeping_is_not_computing() {
        let before = thread_cpu_time();
        std::thread::sleep(Duration::from_millis(100));
        assert!(thread_cpu_time() - before < Duration::from_millis(50));
    }
}

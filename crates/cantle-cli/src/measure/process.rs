//! Counts of the kernel for this process: bytes to and from the device, and resident memory.

use serde::Serialize;
use std::fs;

/// `/proc/self/io` at one moment, or the difference of two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct DeviceBytes {
    /// Bytes fetched from the device; reads that the page cache served are not among them.
    pub(crate) read_bytes: u64,
    /// Bytes of dirtied pages, less those that were truncated away before they reached the device.
    pub(crate) written_bytes: u64,
}

impl DeviceBytes {
    /// Since the process began, over all of its threads; `None` where the kernel does not count.
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/self/io").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let written = field(text, "write_bytes:")?;
        // Truncated pages may have been dirtied by another process: never below zero.
        let cancelled = field(text, "cancelled_write_bytes:")?;
        Some(Self {
            read_bytes: field(text, "read_bytes:")?,
            written_bytes: written.saturating_sub(cancelled),
        })
    }

    /// The bytes since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }
}

/// The first number after `name` at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The most memory that was resident since the process began or since [`reset_peak_resident`].
pub(crate) fn peak_resident_bytes() -> Option<u64> {
    field(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM:").map(|kib| kib * 1024)
}

/// Makes the peak start again from what is resident now; `false` where the kernel does not allow
/// it, and the peak then is the process's.
pub(crate) fn reset_peak_resident() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// The kernel's release, for reports.
pub(crate) fn kernel_release() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/osrelease").ok()?.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const IO: &str = "rchar: 9\nwchar: 8\nsyscr: 7\nsyscw: 6\nread_bytes: 4096\nwrite_bytes: 12288\n\
                      cancelled_write_bytes: 8192\n";

    #[test]
    fn cancelled_writes_are_taken_off() {
        let bytes = DeviceBytes::parse(IO).unwrap();
        assert_eq!(bytes, DeviceBytes { read_bytes: 4096, written_bytes: 4096 });
        assert_eq!(bytes.since(DeviceBytes { read_bytes: 96, written_bytes: 5000 }).written_bytes, 0);
        assert_eq!(DeviceBytes::parse("rchar: 1\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_reset_peak_forgets_what_was_freed() {
        let large = vec![1u8; 64 << 20];
        assert!(large.iter().map(|&b| u64::from(b)).sum::<u64>() > 0);
        let before = peak_resident_bytes().unwrap();
        assert!(before >= 64 << 20);
        drop(large);
        if reset_peak_resident() {
            assert!(peak_resident_bytes().unwrap() < before);
        }
    }
}

//! The disk space that a store occupies, now and over time.

use serde::Serialize;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes that the file system has allocated to the files below `dir`: holes and preallocated tails
/// as they are, not as their lengths pretend. A file that vanishes meanwhile counts nothing; a hard
/// link counts once for each of its names.
pub(crate) fn allocated_bytes(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => bytes += allocated(&metadata),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(bytes)
}

#[cfg(unix)]
fn allocated(metadata: &fs::Metadata) -> u64 {
    // POSIX leaves the unit open; on Linux, macOS and the BSDs st_blocks counts 512 bytes.
    std::os::unix::fs::MetadataExt::blocks(metadata) * 512
}

#[cfg(not(unix))]
fn allocated(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

/// Interval at which the space of a running workload is looked at.
const INTERVAL: Duration = Duration::from_millis(200);

/// Collects bytes on disk per live byte while a workload runs.
#[derive(Debug)]
pub(crate) struct SpaceSampler {
    next: Instant,
    samples: u64,
    sum: f64,
    max: f64,
    last: f64,
    disk_bytes: u64,
    live_bytes: u64,
}

/// Bytes on disk per live byte.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Space {
    pub(crate) max: f64,
    pub(crate) mean: f64,
    pub(crate) end: f64,
    /// Bytes on disk at the end.
    disk_bytes: u64,
    /// Bytes of keys and values at the end.
    pub(crate) live_bytes: u64,
}

impl SpaceSampler {
    /// The first sample is due at once.
    pub(crate) fn new(now: Instant) -> Self {
        Self { next: now, samples: 0, sum: 0.0, max: 0.0, last: 0.0, disk_bytes: 0, live_bytes: 0 }
    }

    /// True if the next sample is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Takes a sample: `disk_bytes` on disk for `live_bytes` of keys and values. Nothing live, no
    /// ratio.
    pub(crate) fn sample(&mut self, now: Instant, disk_bytes: u64, live_bytes: u64) {
        self.next = now + INTERVAL;
        (self.disk_bytes, self.live_bytes) = (disk_bytes, live_bytes);
        if live_bytes > 0 {
            self.last = disk_bytes as f64 / live_bytes as f64;
            self.samples += 1;
            self.sum += self.last;
            self.max = self.max.max(self.last);
        }
    }

    /// Space over all samples.
    pub(crate) fn summary(&self) -> Space {
        let mean = if self.samples == 0 { 0.0 } else { self.sum / self.samples as f64 };
        Space {
            max: self.max,
            mean,
            end: self.last,
            disk_bytes: self.disk_bytes,
            live_bytes: self.live_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocated_bytes_counts_files_in_folders_too() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("inner")).unwrap();
        fs::write(dir.path().join("one"), vec![7u8; 100_000]).unwrap();
        fs::write(dir.path().join("inner/two"), vec![7u8; 50_000]).unwrap();
        let file = fs::File::open(dir.path().join("one")).unwrap();
        file.sync_all().unwrap();
        fs::File::open(dir.path().join("inner/two")).unwrap().sync_all().unwrap();
        let bytes = allocated_bytes(dir.path()).unwrap();
        assert!((150_000..200_000).contains(&bytes), "{bytes}");
        assert!(allocated_bytes(&dir.path().join("none")).is_err());
    }

    #[test]
    fn the_sampler_keeps_peak_mean_and_end() {
        let start = Instant::now();
        let mut sampler = SpaceSampler::new(start);
        assert!(sampler.is_due(start));
        for disk in [100, 300, 200] {
            sampler.sample(start, disk, 100);
        }
        sampler.sample(start, 999, 0);
        assert_eq!(
            sampler.summary(),
            Space { max: 3.0, mean: 2.0, end: 2.0, disk_bytes: 999, live_bytes: 0 }
        );
        assert!(!sampler.is_due(start + Duration::from_millis(199)));
        assert!(sampler.is_due(start + Duration::from_millis(200)));
    }
}

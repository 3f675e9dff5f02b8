//! Disk space of a store, now and over time.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes that the file system has allocated to the files below `dir`. A file that is removed at the
/// same time counts 0.
pub fn allocated_bytes(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => bytes += metadata.blocks() * 512,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(bytes)
}

/// Extensions of the stores' sorted tables.
const TABLES: [&str; 3] = ["table", "sst", "ldb"];

/// Sizes of the sorted tables of a store, in bytes (PebblesDB, Table 1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TableSizes {
    /// Number of tables.
    pub tables: u64,
    /// Mean size.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 90 of 100 are at most this large.
    pub p90: u64,
    /// 95 of 100.
    pub p95: u64,
}

impl TableSizes {
    /// The sizes of the tables below `dir`; `None` if there are none. A table that is removed at the same
    /// time does not count.
    pub fn of(dir: &Path) -> Option<Self> {
        let (mut sizes, mut folders) = (Vec::new(), vec![dir.to_path_buf()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).ok()?.flatten() {
                let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
                let extension = path.extension().unwrap_or_default();
                if metadata.is_dir() {
                    folders.push(path);
                } else if TABLES.iter().any(|table| extension == *table) {
                    sizes.push(metadata.len());
                }
            }
        }
        sizes.sort_unstable();
        let last = sizes.len().checked_sub(1)?;
        let at = |percent: usize| sizes[(sizes.len() * percent).div_ceil(100).saturating_sub(1).min(last)];
        let (p50, p90, p95) = (at(50), at(90), at(95));
        let mean = sizes.iter().sum::<u64>() as f64 / sizes.len() as f64;
        Some(Self { tables: sizes.len() as u64, mean, p50, p90, p95 })
    }
}

/// Space at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the start.
    pub at_s: f64,
    /// Bytes on disk.
    pub disk_bytes: u64,
    /// Bytes of keys and values that exist.
    pub live_bytes: u64,
}

/// Space over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// In the order of time.
    pub samples: Vec<Sample>,
    /// The moment at which bytes on disk, less what a store may have besides, were most for each live byte.
    #[serde(default)]
    pub peak: Option<Peak>,
}

/// Bytes that a store may have on disk beside its live data and logs that are not merged.
const BESIDE_BYTES: u64 = 64_000_000;

/// Space at its peak.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// The sample.
    pub sample: Sample,
    /// Bytes of complete logs that were not merged.
    pub unmerged_bytes: u64,
}

impl Peak {
    /// Bytes on disk per live byte, without the logs that were not merged and 64 MB.
    pub fn ratio(&self) -> f64 {
        let beside = self.unmerged_bytes + BESIDE_BYTES;
        self.sample.disk_bytes.saturating_sub(beside) as f64 / self.sample.live_bytes.max(1) as f64
    }
}

/// Interval at which the peak is looked for.
const PEAK_INTERVAL: Duration = Duration::from_millis(50);

/// Interval between samples; longer in long runs, so that there are at most [`SAMPLES_MAX`].
const INTERVAL: Duration = Duration::from_millis(200);

/// Maximum number of samples.
const SAMPLES_MAX: usize = 300;

/// Takes samples while a workload runs.
pub struct Sampler {
    start: Instant,
    next: Instant,
    next_peak: Instant,
    interval: Duration,
    space: Space,
}

impl Sampler {
    /// The first sample is due at once.
    pub fn new(start: Instant) -> Self {
        Self { start, next: start, next_peak: start, interval: INTERVAL, space: Space::default() }
    }

    /// Takes a sample if one is due. A listing that fails while files come and go is repeated at
    /// the next call. `unmerged_bytes` may take long.
    pub fn look(&mut self, dir: &Path, live_bytes: u64, unmerged_bytes: &dyn Fn() -> u64) {
        let now = Instant::now();
        if now < self.next_peak {
            return;
        }
        self.next_peak = now + PEAK_INTERVAL;
        let Some(sample) = self.measure(dir, live_bytes) else { return };
        let peak = self.space.peak.map_or(0.0, |peak| peak.ratio());
        if (Peak { sample, unmerged_bytes: 0 }).ratio() > peak {
            let now = Peak { sample, unmerged_bytes: unmerged_bytes() };
            self.space.peak = self.space.peak.filter(|_| now.ratio() <= peak).or(Some(now));
        }
        if now >= self.next {
            self.add(sample);
        }
    }

    fn measure(&self, dir: &Path, live_bytes: u64) -> Option<Sample> {
        let disk_bytes = allocated_bytes(dir).ok()?;
        Some(Sample { at_s: self.start.elapsed().as_secs_f64(), disk_bytes, live_bytes })
    }

    fn add(&mut self, sample: Sample) {
        self.space.samples.push(sample);
        if self.space.samples.len() >= SAMPLES_MAX {
            let mut number = 0;
            self.space.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.interval *= 2;
        }
        self.next = Instant::now() + self.interval;
    }

    /// Takes a last sample.
    pub fn finish(mut self, dir: &Path, live_bytes: u64) -> Space {
        let last = self.measure(dir, live_bytes);
        last.into_iter().for_each(|sample| self.add(sample));
        self.space
    }
}

impl Space {
    fn ratios(&self) -> impl Iterator<Item = f64> {
        let live = self.samples.iter().filter(|sample| sample.live_bytes > 0);
        live.map(|sample| sample.disk_bytes as f64 / sample.live_bytes as f64)
    }

    /// Maximum of bytes on disk per live byte.
    pub fn amplification_max(&self) -> f64 {
        self.ratios().fold(0.0, f64::max)
    }

    /// Mean over time of bytes on disk per live byte.
    pub fn amplification_mean(&self) -> f64 {
        let (sum, count) = self.ratios().fold((0.0, 0), |(sum, count), ratio| (sum + ratio, count + 1));
        if count == 0 { 0.0 } else { sum / f64::from(count) }
    }

    /// Bytes on disk per live byte at the end.
    pub fn amplification_end(&self) -> f64 {
        self.ratios().last().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_tables_are_those_of_tables_alone() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(TableSizes::of(dir.path()), None);
        fs::create_dir(dir.path().join("inner")).unwrap();
        fs::write(dir.path().join("1.log"), vec![0; 50_000]).unwrap();
        for number in 1..=20 {
            let name =
                if number % 2 == 0 { format!("inner/{number}.sst") } else { format!("{number}.table") };
            fs::write(dir.path().join(name), vec![0; number * 100]).unwrap();
        }
        let sizes = TableSizes::of(dir.path()).unwrap();
        let expected = TableSizes { tables: 20, mean: 1_050.0, p50: 1_000, p90: 1_800, p95: 1_900 };
        assert_eq!(sizes, expected);
    }

    #[test]
    fn the_peak_is_where_least_of_the_space_is_explained() {
        let dir = tempfile::tempdir().unwrap();
        let mut sampler = Sampler::new(Instant::now());
        let mut look = |bytes: u64, unmerged: u64| {
            let file = fs::File::create(dir.path().join("file")).unwrap();
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).unwrap();
            sampler.next_peak = Instant::now();
            sampler.look(dir.path(), 10_000_000, &|| unmerged);
            sampler.space.peak
        };
        assert_eq!(look(60_000_000, 0), None, "that much every store may have");
        let peak = look(90_000_000, 10_000_000).unwrap();
        assert!((1.59..1.7).contains(&peak.ratio()), "{peak:?}");
        assert_eq!(look(100_000_000, 30_000_000), Some(peak), "more logs explain it");
        assert!(look(100_000_000, 0).unwrap().ratio() > 3.5);
    }

    #[test]
    fn long_runs_keep_few_samples() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, vec![1; 100_000]).unwrap();
        // Some file systems allocate blocks only at the sync.
        fs::File::open(&path).unwrap().sync_all().unwrap();
        let mut sampler = Sampler::new(Instant::now());
        for _ in 0..1_000 {
            let sample = sampler.measure(dir.path(), 50_000).unwrap();
            sampler.add(sample);
        }
        let space = sampler.finish(dir.path(), 0);
        assert!((100..=SAMPLES_MAX).contains(&space.samples.len()), "{}", space.samples.len());
        assert!(space.samples.windows(2).all(|pair| pair[0].at_s <= pair[1].at_s));
        let (mean, max) = (space.amplification_mean(), space.amplification_max());
        assert!((mean - max).abs() < 1e-9 && space.amplification_end() > 1.9, "{mean} {max}");
    }
}

//! The speed of the device without a store: it tells a slow store from a slow disk.

use super::failed;
use super::latency::Latencies;
use crate::failure::{Failure, Outcome};
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which the probe appends: often enough to meet every stall worth the name, too rarely
/// to add to one.
const PROBE_EVERY: Duration = Duration::from_millis(10);

/// Appends a few bytes to a file of its own now and then, while something else is measured: what a
/// write takes without a store, under the same load. Ends with [`finish`](Self::finish) or when it
/// is dropped.
pub(crate) struct Probe {
    end: Sender<()>,
    thread: JoinHandle<io::Result<Latencies>>,
}

impl Probe {
    /// Starts it, with appends of `bytes` to a nameless file in `dir`.
    pub(crate) fn start(dir: &Path, bytes: usize) -> Outcome<Self> {
        let mut file = tempfile::tempfile_in(dir).map_err(failed("create a file in", dir))?;
        let mut latencies = Latencies::new()?;
        let (end, ended) = mpsc::channel();
        let record = vec![0x5a; bytes];
        let thread = std::thread::spawn(move || {
            while matches!(ended.recv_timeout(PROBE_EVERY), Err(RecvTimeoutError::Timeout)) {
                let start = Instant::now();
                file.write_all(&record)?;
                latencies.record(start.elapsed());
            }
            Ok(latencies)
        });
        Ok(Self { end, thread })
    }

    /// Ends it. Returns how long the appends took.
    pub(crate) fn finish(self) -> Outcome<Latencies> {
        drop(self.end);
        let panicked = |_| Err(io::Error::other("the thread of the probe panicked"));
        self.thread.join().unwrap_or_else(panicked).map_err(|error| Failure::Failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_appends_until_it_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let probe_for = |periods: u32| {
            let begun = std::time::Instant::now();
            let probe = Probe::start(dir.path(), 814).unwrap();
            std::thread::sleep(PROBE_EVERY * periods);
            let latencies = probe.finish().unwrap().percentiles();
            (latencies, begun.elapsed().as_nanos() / PROBE_EVERY.as_nanos())
        };
        // A machine with much else to do may have its thread wait for long.
        let appended =
            [5, 50, 500].into_iter().map(probe_for).find_map(|(latencies, most)| Some((latencies?, most)));
        let (latencies, most) = appended.unwrap();
        assert!(
            (1..=most).contains(&latencies.count.into()) && latencies.max_ns > 0,
            "{latencies:?}, {most} periods"
        );
        assert!(Probe::start(&dir.path().join("none"), 814).is_err());
    }
}

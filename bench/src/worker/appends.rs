//! A bare writer beside a store: the delays that it sees are not the store's.

use crate::failure::{Failure, Result, on};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of one append, and the time between two: few beside what a store writes.
const APPEND_BYTES: usize = 1024;
const INTERVAL: Duration = Duration::from_millis(2);

/// A thread that appends to a file until it is stopped.
pub struct Appends {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Duration>>,
}

impl Appends {
    /// Starts the thread, with a file without a name beside the directory `dir`: on the same device.
    pub fn beside(dir: &Path) -> Result<Self> {
        let parent = dir.parent().unwrap_or(dir);
        let file = tempfile::tempfile_in(parent).map_err(on("create a file in", parent))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        Ok(Self { is_over, thread: std::thread::spawn(move || append(file, &seen)) })
    }

    /// Ends the thread; returns the longest append in nanoseconds.
    pub fn stop(self) -> Result<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        let longest = self.thread.join().map_err(|_| Failure::new("the bare writer panicked"))??;
        Ok(u64::try_from(longest.as_nanos())?)
    }
}

fn append(mut file: File, is_over: &AtomicBool) -> std::io::Result<Duration> {
    let (bytes, mut longest) = ([7; APPEND_BYTES], Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        file.write_all(&bytes)?;
        longest = longest.max(begun.elapsed());
        std::thread::sleep(INTERVAL);
    }
    Ok(longest)
}

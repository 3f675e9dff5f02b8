//! Reads of many places at once.
//!
//! A reader that needs one block of each of twelve files waits for the device twelve times,
//! although the device could serve all of them together. A [`ReadQueue`] gives the operating system
//! all places before it waits for the first: through a ring of the kernel, if it has one (`vfs/ring.rs`), or
//! else by hints ([`VfsFile::prefetch`]), which begin the reads that follow.
//!
//! On a local SSD 64 places of 4 KiB that are in no cache take 0.69 to 1.02 ms by hints, 0.79 to 1.17 ms through a ring
//! and 2.89 to 4.66 ms one after the other (medians of 100 turns, in four runs; in each the ring took a seventh longer
//! than hints). Therefore a store uses hints unless it is asked for a ring. `cargo test --release -p cantle --lib -- --ignored --nocapture speed_of_the_ways`.
//!
//! Both return the same results and errors, as whatever the ring does not read is read by
//! [`read_at`](VfsFile::read_at).

use super::VfsFile;
use super::read_depth::ReadDepth;
use super::ring::Ring;
use crate::sync::counter::Counter;
use std::io;
use std::sync::OnceLock;

/// Maximum number of places with a hint that are not read yet. Devices gain nothing by deeper
/// queues, and pages that are read too far ahead may be evicted before they are needed.
const AHEAD_MAX: usize = 32;

/// A place in a file, and the buffer to fill from there.
#[derive(Debug)]
pub struct ReadRequest<'a> {
    /// The file.
    pub file: &'a dyn VfsFile,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Destination of the bytes. Its length is the number of bytes to read; fewer are read if the
    /// file ends.
    pub buffer: &'a mut [u8],
}

impl ReadRequest<'_> {
    fn prefetch(&self) {
        self.file.prefetch(self.offset, self.buffer.len() as u64);
    }

    #[cfg(unix)]
    fn has_descriptor(&self) -> bool {
        self.file.descriptor().is_some()
    }

    #[cfg(not(unix))]
    fn has_descriptor(&self) -> bool {
        false
    }

    fn read(&mut self) -> io::Result<usize> {
        self.file.read_at(self.buffer, self.offset)
    }

    /// Reads what an answer of the kernel's leaves.
    fn finish(&mut self, answer: Option<i32>) -> io::Result<usize> {
        let read = answer.and_then(|answer| usize::try_from(answer).ok()).unwrap_or(0).min(self.buffer.len());
        if read == self.buffer.len() {
            return Ok(read);
        }
        let rest = self.file.read_at(&mut self.buffer[read..], self.offset.saturating_add(read as u64))?;
        Ok(read + rest)
    }
}

/// The way in which reads of many places are made.
#[derive(Debug, Default)]
pub struct ReadQueue {
    /// Asked for at the first use. `None` if there is none.
    ring: OnceLock<Option<Ring>>,
    by_ring: Counter,
    by_hints: Counter,
    /// The number of places that pays for a caller that does not know which it needs.
    pub(crate) depth: ReadDepth,
}

impl ReadQueue {
    /// Bytes of memory that the kernel and the process use for a ring.
    pub const RING_BYTES: u64 = 16 << 10;

    /// A queue that uses hints only, and asks the kernel for nothing.
    pub fn of_hints() -> Self {
        Self { ring: OnceLock::from(None), ..Self::default() }
    }

    /// Fills the buffers of all places, in one file or in many. Returns the outcome of
    /// [`read_at`](VfsFile::read_at) for each place: a place that cannot be read does not affect the
    /// others. Thread safety: as for `read_at`; nobody waits for another's reads.
    pub fn read_all(&self, places: &mut [ReadRequest<'_>]) -> Vec<io::Result<usize>> {
        if let [place] = places {
            return vec![place.read()];
        }
        if let Some(outcomes) = self.read_by_ring(places) {
            return outcomes;
        }
        self.by_hints.add(places.len() as u64);
        read_all(places)
    }

    fn read_by_ring(&self, places: &mut [ReadRequest<'_>]) -> Option<Vec<io::Result<usize>>> {
        if !places.iter().any(ReadRequest::has_descriptor) {
            return None;
        }
        let ask = || match ask_for_ring() {
            Ok(ring) => Some(ring),
            Err(error) => {
                tracing::debug!(%error, "no io_uring: places are read by hints");
                None
            }
        };
        let answers = self.ring.get_or_init(ask).as_ref()?.read(places);
        if answers.iter().all(Option::is_none) {
            return None;
        }
        self.by_ring.add(answers.iter().flatten().count() as u64);
        Some(places.iter_mut().zip(answers).map(|(place, answer)| place.finish(answer)).collect())
    }

    /// Number of places that were read through a ring, and by hints.
    pub fn counts(&self) -> (u64, u64) {
        (self.by_ring.get(), self.by_hints.get())
    }
}

/// A ring, unless the environment forbids to ask for one.
fn ask_for_ring() -> io::Result<Ring> {
    if std::env::var_os("CANTLE_IO_URING").is_some_and(|wish| wish == "off") {
        return Err(io::Error::other("CANTLE_IO_URING is off"));
    }
    Ring::ask()
}

/// As [`ReadQueue::read_all`], by hints.
fn read_all(places: &mut [ReadRequest<'_>]) -> Vec<io::Result<usize>> {
    // The first place is read at once.
    places.iter().skip(1).take(AHEAD_MAX).for_each(ReadRequest::prefetch);
    (0..places.len())
        .map(|at| {
            if let Some(next) = places.get(at + 1 + AHEAD_MAX) {
                next.prefetch();
            }
            places[at].read()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Arc, Mutex};
    use crate::vfs::{Failure, FaultVfs, MemVfs, OpenMode, Operation, StdVfs, Verdict, Vfs};
    use std::path::Path;

    #[test]
    fn hints_come_first_and_a_place_that_fails_leaves_the_others_alone() {
        const PLACES: usize = 100;
        let vfs = FaultVfs::new(Arc::new(MemVfs::new()));
        let file = vfs.open(Path::new("file"), OpenMode::CreateNew).unwrap();
        (0..PLACES).for_each(|at| file.write_at(&[at as u8; 4], 10 * at as u64).unwrap());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = calls.clone();
        vfs.set_rule(move |call| {
            seen.lock().push((call.operation, call.offset / 10));
            if (call.operation, call.offset) == (Operation::ReadAt, 50) {
                return Verdict::Fail(Failure::EIO);
            }
            Verdict::Pass
        });
        let mut buffers = [[0; 4]; PLACES];
        let mut places: Vec<ReadRequest<'_>> = (0..)
            .zip(&mut buffers)
            .map(|(at, buffer)| ReadRequest { file: &*file, offset: 10 * at, buffer })
            .collect();
        let outcomes = ReadQueue::of_hints().read_all(&mut places);
        for (at, (outcome, buffer)) in outcomes.iter().zip(buffers).enumerate() {
            match at {
                5 => assert!(outcome.is_err()),
                _ => assert_eq!((outcome.as_ref().unwrap(), buffer), (&4, [at as u8; 4])),
            }
        }
        let calls = calls.lock();
        let (mut hints, mut reads) = (0, 0);
        for (operation, at) in &*calls {
            match operation {
                Operation::Prefetch => {
                    hints += 1;
                    assert_eq!(*at, hints, "in their order");
                    assert!(hints - reads <= AHEAD_MAX as u64 + 1, "too far ahead");
                }
                _ => {
                    assert_eq!((*operation, *at), (Operation::ReadAt, reads));
                    assert!(reads == 0 || hints >= reads, "a place was read without a hint");
                    reads += 1;
                }
            }
        }
        assert_eq!((hints, reads), (PLACES as u64 - 1, PLACES as u64));
    }

    #[test]
    fn one_place_alone_needs_no_hint_and_none_no_read() {
        let vfs = FaultVfs::new(Arc::new(MemVfs::new()));
        let file = vfs.open(Path::new("file"), OpenMode::CreateNew).unwrap();
        file.write_at(b"bytes", 0).unwrap();
        let mut buffer = [0; 9];
        let outcomes = ReadQueue::of_hints().read_all(&mut [ReadRequest {
            file: &*file,
            offset: 1,
            buffer: &mut buffer,
        }]);
        assert_eq!(outcomes.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [4], "the file ends");
        assert_eq!(&buffer[..4], b"ytes");
        assert!(ReadQueue::of_hints().read_all(&mut []).is_empty());
        assert_eq!((vfs.count(Operation::Prefetch), vfs.count(Operation::ReadAt)), (0, 1));
    }

    /// Reads places of a file of the operating system, of which one is behind its end and one has a buffer
    /// of no bytes.
    fn read_by(queue: &ReadQueue) -> Vec<(Option<usize>, Vec<u8>)> {
        let dir = tempfile::tempdir().unwrap();
        let file = StdVfs.open(&dir.path().join("file"), OpenMode::CreateNew).unwrap();
        (0..300).for_each(|at| file.write_at(&[at as u8; 16], 16 * at).unwrap());
        let mut buffers = vec![vec![9; 20]; 200];
        buffers[7].clear();
        let mut places: Vec<ReadRequest<'_>> = (0..)
            .zip(&mut buffers)
            .map(|(at, buffer)| ReadRequest { file: &*file, offset: 25 * at, buffer })
            .collect();
        places[9].offset = 1 << 40;
        // No position of a file, and no offset that the kernel takes.
        places[10].offset = u64::MAX;
        let outcomes = queue.read_all(&mut places);
        outcomes.into_iter().map(Result::ok).zip(buffers).collect()
    }

    #[test]
    fn a_ring_reads_what_hints_read() {
        let (any, hints) = (ReadQueue::default(), ReadQueue::of_hints());
        assert_eq!(read_by(&any), read_by(&hints));
        assert_eq!(hints.counts(), (0, 200));
        // Where the kernel refuses rings, both read by hints.
        assert!([(199, 0), (0, 200)].contains(&any.counts()), "{:?}", any.counts());
    }

    #[test]
    #[ignore = "a measurement: cargo test --release -p cantle --lib -- --ignored --nocapture speed_of_the_ways"]
    fn speed_of_the_ways_to_read_many_places() {
        const PLACES: u64 = 64;
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("file");
        let file = StdVfs.open(&path, OpenMode::CreateNew).unwrap();
        for at in 0..1024_u64 {
            file.write_at(&vec![at as u8; 1 << 20], at << 20).unwrap();
        }
        file.sync_data().unwrap();
        let (ring, hints) = (ReadQueue::default(), ReadQueue::of_hints());
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        let mut place = 1_u64;
        for _ in 0..100 {
            for (way, times) in times.iter_mut().enumerate() {
                let descriptor = file.descriptor().unwrap();
                rustix::fs::fadvise(descriptor, 0, None, rustix::fs::Advice::DontNeed).unwrap();
                let mut buffers = vec![vec![0; 4096]; PLACES as usize];
                let mut places: Vec<ReadRequest<'_>> = buffers
                    .iter_mut()
                    .map(|buffer| {
                        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        ReadRequest { file: &*file, offset: (place >> 46) << 12, buffer }
                    })
                    .collect();
                let begun = crate::sync::time::now();
                match way {
                    0 => places.iter_mut().for_each(|place| assert_eq!(place.read().unwrap(), 4096)),
                    1 => hints
                        .read_all(&mut places)
                        .into_iter()
                        .for_each(|read| assert_eq!(read.unwrap(), 4096)),
                    _ => ring
                        .read_all(&mut places)
                        .into_iter()
                        .for_each(|read| assert_eq!(read.unwrap(), 4096)),
                }
                times.push(begun.elapsed());
            }
        }
        for (name, mut times) in ["one by one", "hints", "ring"].into_iter().zip(times) {
            times.sort_unstable();
            println!(
                "{name}: {:?} for {PLACES} places of 4 KiB, median of {}",
                times[times.len() / 2],
                times.len()
            );
        }
        println!("{:?} places by ring and hints", ring.counts());
    }
}

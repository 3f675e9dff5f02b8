//! Reads of many places through a ring of the kernel's (io_uring): one system call begins all of them and
//! waits for them.
//!
//! The kernel writes to the callers' buffers while a call is in progress, and never after it: a call returns
//! only when each of its reads has ended, whatever happens. A read that did not fill its buffer counts as not
//! made; the caller repeats it by an ordinary read, which has the result or the error.
//!
//! Kernels may have no rings, or refuse them (`kernel.io_uring_disabled`, a seccomp filter): then [`Ring::ask`] fails.
//! Some filters end the thread that asks, so a thread of its own asks. Other filters end the whole process, and
//! nobody can find that out in advance: `CANTLE_IO_URING=off` keeps the library from asking.
//!
//! Thread safety: one thread uses the ring at a time, and the others do not wait for it. A forked child does
//! not touch the ring of its parent.
#![expect(unsafe_code, reason = "the kernel writes to buffers")]

use super::ReadRequest;
use crate::sync::{Mutex, thread};
use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::time::Duration;

/// Number of reads that one call begins. The kernel's completion queue holds twice as many, and so never
/// overflows.
const ENTRIES: u32 = 64;
/// Time after which a thread that asks for a ring counts as ended.
const ASKING_MAX: Duration = Duration::from_secs(1);
/// Number of times that the kernel may be short of memory before its ring is given up.
const RETRIES_MAX: u32 = 1000;
/// Time between looks at reads that are under way while the kernel does not let the thread wait.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A ring, until it fails.
#[derive(Debug)]
pub(super) struct Ring {
    ring: Mutex<Option<Queues>>,
    process: u32,
}

struct Queues(IoUring);

impl std::fmt::Debug for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IoUring")
    }
}

impl Ring {
    /// A ring, if the kernel gives one.
    pub(super) fn ask() -> io::Result<Self> {
        Self::ask_by(make)
    }

    /// The same, from `make`, which may end its thread.
    fn ask_by(make: impl FnOnce() -> io::Result<Queues> + Send + 'static) -> io::Result<Self> {
        let (answer, answers) = mpsc::channel();
        // Nobody joins a thread that a filter may end.
        thread::spawn("cantle-ring", move || {
            let _ = answer.send(make());
        })?;
        let made = answers.recv_timeout(ASKING_MAX).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        Ok(Self { ring: Mutex::new(Some(made?)), process: std::process::id() })
    }

    /// Reads places, and returns what the kernel answered for each: a number of bytes, or an error below 0.
    /// `None` for each place that was not read; for all of them if the ring is in use or cannot be used.
    pub(super) fn read(&self, places: &mut [ReadRequest<'_>]) -> Vec<Option<i32>> {
        let mut answers = vec![None; places.len()];
        if self.process != std::process::id() {
            return answers;
        }
        let Some(mut ring) = self.ring.try_lock() else { return answers };
        for (window, answers) in places.chunks_mut(ENTRIES as usize).zip(answers.chunks_mut(ENTRIES as usize))
        {
            let Some(queues) = &mut *ring else { break };
            if queues.read(window, answers).is_err() {
                canary!(UNREAD_PLACES_TRUSTED => answers.fill(Some(i32::MAX)));
                // Nothing is under way any more.
                *ring = None;
            }
        }
        answers
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // The child does not have its memory, and its handle is one of many that it inherited.
            std::mem::forget(self.ring.get_mut().take());
        }
    }
}

/// Makes a ring and tries it.
fn make() -> io::Result<Queues> {
    // A forked child has no part in it. Where the kernel knows how to (Linux 5.19), it ends reads when the thread
    // waits for them anyway, without interrupting it.
    let build = |builder: &mut io_uring::Builder| builder.dontfork().build(ENTRIES);
    let ring = build(IoUring::builder().setup_coop_taskrun()).or_else(|_| build(&mut IoUring::builder()))?;
    let mut known = Probe::new();
    ring.submitter().register_probe(&mut known)?;
    if !known.is_supported(opcode::Read::CODE) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut queues = Queues(ring);
    queues.push(&opcode::Nop::new().build());
    let mut answers = [None];
    queues.wait(1, &mut answers)?;
    Ok(queues)
}

impl Queues {
    /// False if the queue is full.
    fn push(&mut self, entry: &io_uring::squeue::Entry) -> bool {
        // SAFETY: the buffers and descriptors of all entries live until `wait` has seen their ends.
        unsafe { self.0.submission().push(entry) }.is_ok()
    }

    /// Reads at most `ENTRIES` places. After an error none is under way.
    fn read(&mut self, places: &mut [ReadRequest<'_>], answers: &mut [Option<i32>]) -> io::Result<()> {
        let entry = |(number, ReadRequest { file, offset, buffer }): (u64, &mut ReadRequest<'_>)| {
            let descriptor = types::Fd(file.descriptor()?.as_raw_fd());
            // The greatest offset would mean the file's position.
            i64::try_from(*offset).ok()?;
            // The rest of a longer one is read by its own call.
            let len = u32::try_from(buffer.len()).unwrap_or(i32::MAX as u32);
            let read = opcode::Read::new(descriptor, buffer.as_mut_ptr(), len).offset(*offset);
            Some(read.build().user_data(number))
        };
        // All before the first is pushed: a panic of a file's must leave none in the queue.
        let entries: Vec<_> = (0..).zip(places).filter_map(entry).collect();
        let wanted = entries.iter().map(|entry| usize::from(self.push(entry))).sum();
        self.wait(wanted, answers)
    }

    /// Submits what was pushed, `wanted` entries, and waits for the end of all of them.
    fn wait(&mut self, wanted: usize, answers: &mut [Option<i32>]) -> io::Result<()> {
        let (mut ended, mut retries) = (0, 0);
        let mut failed = None;
        loop {
            for completion in self.0.completion() {
                ended += 1;
                if let Some(answer) = answers.get_mut(completion.user_data() as usize) {
                    *answer = Some(completion.result());
                }
            }
            // The kernel never takes what is left, as the ring is dropped.
            let untaken = if failed.is_some() { self.0.submission().len() } else { 0 };
            if ended + untaken >= wanted {
                return failed.map_or(Ok(()), Err);
            }
            if failed.is_some() {
                thread::sleep(LOOK_AGAIN);
                continue;
            }
            match self.0.submit_and_wait(wanted - ended) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Short of memory, or of room for completions: those that have come make room.
                Err(error) if is_passing(&error) && retries < RETRIES_MAX => retries += 1,
                Err(error) => failed = Some(error),
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    [Errno::AGAIN, Errno::BUSY].iter().any(|passing| error.raw_os_error() == Some(passing.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::{OpenMode, StdVfs, Vfs, VfsFile};
    use std::sync::Arc;

    fn file_of(dir: &tempfile::TempDir, bytes: usize) -> Arc<dyn VfsFile> {
        let file = StdVfs.open(&dir.path().join("file"), OpenMode::CreateNew).unwrap();
        let content: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
        file.write_at(&content, 0).unwrap();
        file
    }

    #[test]
    fn a_thread_that_is_ended_while_it_asks_is_a_refusal() {
        let refused = Ring::ask_by(|| Err(io::ErrorKind::PermissionDenied.into()));
        assert!(refused.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied));
        // As if it were gone: it answers nothing.
        assert!(
            Ring::ask_by(|| loop {
                std::thread::park()
            })
            .is_err_and(|e| e.kind() == io::ErrorKind::TimedOut)
        );
    }

    #[test]
    fn what_the_ring_reads_is_what_the_file_holds() {
        let Ok(ring) = Ring::ask() else { return };
        let dir = tempfile::tempdir().unwrap();
        let file = file_of(&dir, 10_000);
        let mut buffers = vec![vec![0; 100]; 3 * ENTRIES as usize];
        let mut places: Vec<ReadRequest<'_>> = buffers
            .iter_mut()
            .enumerate()
            .map(|(number, buffer)| ReadRequest { file: &*file, offset: 53 * number as u64, buffer })
            .collect();
        let answers = ring.read(&mut places);
        for (number, (answer, buffer)) in answers.iter().zip(&buffers).enumerate() {
            let expected = 10_000_usize.saturating_sub(53 * number).min(100);
            assert_eq!(*answer, Some(expected as i32), "{number}");
            assert!((0..expected).all(|at| buffer[at] == ((53 * number + at) / 7) as u8), "{number}");
        }
    }

    #[test]
    fn a_ring_in_use_and_that_of_another_process_read_nothing() {
        let Ok(mut ring) = Ring::ask() else { return };
        let dir = tempfile::tempdir().unwrap();
        let file = file_of(&dir, 100);
        let mut buffer = [0; 10];
        let mut places = [ReadRequest { file: &*file, offset: 0, buffer: &mut buffer }];
        let in_use = ring.ring.lock();
        assert_eq!(ring.read(&mut places), [None]);
        drop(in_use);
        assert_eq!(ring.read(&mut places), [Some(10)]);
        ring.process += 1;
        assert_eq!(ring.read(&mut places), [None]);
        ring.process -= 1;
    }

    #[test]
    fn a_ring_that_fails_is_given_up_without_a_read_under_way() {
        let Ok(ring) = Ring::ask() else { return };
        let dir = tempfile::tempdir().unwrap();
        let file = file_of(&dir, 100);
        let mut buffer = [0; 10];
        let mut places = [ReadRequest { file: &*file, offset: 0, buffer: &mut buffer }];
        // The descriptor of the ring becomes that of another file: the kernel refuses each call.
        let null = StdVfs.open(std::path::Path::new("/dev/null"), OpenMode::Read).unwrap();
        {
            let guard = ring.ring.lock();
            let number = guard.as_ref().unwrap().0.as_raw_fd();
            // SAFETY: both are open descriptors, and nobody else uses the ring's.
            assert!(unsafe { libc::dup2(null.descriptor().unwrap().as_raw_fd(), number) } >= 0);
        }
        assert_eq!(ring.read(&mut places), [None]);
        assert!(ring.ring.lock().is_none());
        assert_eq!(ring.read(&mut places), [None]);
    }
}

//! Ctrl-C, and the signal that ends a process politely: a step that takes long ends with what is
//! done.
//!
//! The first signal is kept until the step asks for it; a second one ends the process at once.
//! Input that may never come (a pipe, a terminal) is waited for together with the signal.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Signals since [`catch`](Self::catch).
#[derive(Debug)]
pub(crate) struct Interrupt {
    /// The signal that came; 0 for none.
    signal: Arc<AtomicUsize>,
    /// Readable once a signal came.
    came: UnixStream,
}

impl Interrupt {
    /// Catches signals from now on.
    pub(crate) fn catch() -> io::Result<Arc<Self>> {
        let (came, sender) = UnixStream::pair()?;
        let (signal, first) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        for number in [SIGINT, SIGTERM] {
            let exit_code = 128 + number;
            // In this order: the first signal finds `first` unset.
            signal_hook::flag::register_conditional_shutdown(number, exit_code, Arc::clone(&first))?;
            signal_hook::flag::register(number, Arc::clone(&first))?;
            signal_hook::flag::register_usize(
                number,
                Arc::clone(&signal),
                usize::try_from(number).unwrap_or(1),
            )?;
            signal_hook::low_level::pipe::register(number, sender.try_clone()?)?;
        }
        Ok(Arc::new(Self { signal, came }))
    }

    /// Waits for a signal for this long at most.
    pub(crate) fn sleep(&self, duration: Duration) {
        let Ok(limit) = Timespec::try_from(duration) else { return };
        let mut waited = [PollFd::new(&self.came, PollFlags::IN)];
        // If it ends too early, the caller looks too early.
        let _ = poll(&mut waited, Some(&limit));
    }

    /// The number of the signal that came.
    pub(crate) fn signal(&self) -> Option<u8> {
        u8::try_from(self.signal.load(Ordering::Relaxed)).ok().filter(|&number| number > 0)
    }
}

/// A file whose reads end with an error once a signal came.
pub(crate) struct Interruptible {
    /// The file.
    pub(crate) file: File,
    /// The signals that end its reads.
    pub(crate) interrupt: Option<Arc<Interrupt>>,
}

impl Read for Interruptible {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(interrupt) = &self.interrupt {
            loop {
                if interrupt.signal().is_some() {
                    return Err(io::Error::other("interrupted"));
                }
                let mut waited =
                    [PollFd::new(&self.file, PollFlags::IN), PollFd::new(&interrupt.came, PollFlags::IN)];
                match poll(&mut waited, None) {
                    Ok(_) if waited[0].revents().is_empty() => {}
                    Ok(_) => break,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        self.file.read(buffer)
    }
}

//! The call that makes the kernel begin to write a part of a file to its device.
#![expect(unsafe_code, reason = "a call that rustix does not have")]

use crate::sync::atomic::{AtomicI32, Ordering::Relaxed};
use rustix::fd::AsRawFd;
use rustix::io::Errno;
use std::fs::File;
use std::io;

/// Failures to begin a write-back, which every later sync of the same open file reports.
///
/// The kernel records a page that could not be written in the inode, and each open file reports
/// that by its next `fsync`, once. `sync_file_range` with `SYNC_FILE_RANGE_WRITE` alone does not
/// consume that report: only its waiting flags (`WAIT_BEFORE`, `WAIT_AFTER`) read the record and
/// count it as reported, so they are never set here. The error that the call itself returns is a
/// failure of the file system to submit pages, for instance because delayed allocation found no
/// block. Some file systems then drop the pages and report this to the caller only. The first such
/// error is kept, so that `sync_data` cannot succeed for pages that will not be written.
#[derive(Debug, Default)]
pub(super) struct WriteOut {
    /// The number of the first error; 0 if there was none.
    failed: AtomicI32,
}

impl WriteOut {
    /// Begins to write these bytes to the device.
    pub(super) fn start(&self, file: &File, offset: u64, len: u64) -> io::Result<()> {
        // A length of 0 would mean all bytes up to the end.
        let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if len == 0 {
            return Ok(());
        }
        loop {
            // SAFETY: the descriptor is open while `file` is borrowed, and the call accesses no
            // memory of this process.
            let status =
                unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
            if status == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::INTR) => {}
                // Kernels and sandboxes without the call: nothing has begun, and nothing is lost.
                Some(Errno::NOSYS | Errno::PERM | Errno::ACCESS) => return Ok(()),
                errno => {
                    let number = errno.unwrap_or(Errno::IO).raw_os_error();
                    // Keeps the first error.
                    let _ = self.failed.compare_exchange(0, number, Relaxed, Relaxed);
                    return Err(error);
                }
            }
        }
    }

    /// Fails if a write-back could not be begun.
    pub(super) fn check(&self) -> io::Result<()> {
        match self.failed.load(Relaxed) {
            0 => Ok(()),
            number => Err(io::Error::from_raw_os_error(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::OwnedFd;

    #[test]
    fn a_write_back_that_cannot_begin_fails_every_later_sync() {
        let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let (socket, write_out) = (File::from(OwnedFd::from(socket)), WriteOut::default());
        write_out.start(&socket, 0, 0).unwrap();
        write_out.check().unwrap();
        // A socket has nothing to write back.
        assert_eq!(write_out.start(&socket, 0, 1).unwrap_err().raw_os_error(), Some(libc::ESPIPE));
        for _ in 0..2 {
            assert_eq!(write_out.check().unwrap_err().raw_os_error(), Some(libc::ESPIPE));
        }
    }

    #[test]
    fn a_place_that_no_file_has_is_an_error_and_no_failed_sync() {
        let (file, write_out) = (tempfile::tempfile().unwrap(), WriteOut::default());
        assert_eq!(write_out.start(&file, u64::MAX, 1).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        write_out.check().unwrap();
    }
}

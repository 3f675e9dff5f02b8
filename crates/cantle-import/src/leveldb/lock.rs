//! LevelDB's lock, so that a store which is open is noticed, and nobody opens it meanwhile.
//!
//! LevelDB has a lock of the whole file LOCK for writing, by fcntl. Ours is one for reading, which
//! conflicts with it, but needs no permission to write; and it belongs to the open file instead of
//! to the process, so that it conflicts with a LevelDB in the same process, too, as a Python
//! program may have. Without a file LOCK, as in a copy, there is nothing to lock.

use super::file::open_file;
use crate::error::{Error, Result};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::File;
use std::path::Path;

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct SourceLock(
    #[expect(dead_code, reason = "the lock is gone when the file is closed")] Option<File>,
);

pub(crate) fn lock(dir: &Path) -> Result<SourceLock> {
    let path = dir.join("LOCK");
    let Some((file, _)) = open_file(&path)? else { return Ok(SourceLock(None)) };
    let mut whole = libc::flock {
        l_type: libc::F_RDLCK as _,
        l_whence: libc::SEEK_SET as _,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&whole)) {
        Ok(_) => Ok(SourceLock(Some(file))),
        Err(Errno::EAGAIN | Errno::EACCES) => {
            let asked = fcntl(&file, FcntlArg::F_OFD_GETLK(&mut whole));
            let held = asked.is_ok() && whole.l_type != libc::F_UNLCK as libc::c_short;
            let pid = u32::try_from(whole.l_pid).ok().filter(|&pid| held && pid > 0);
            if pid.is_none_or(|pid| pid == std::process::id()) {
                // Closing any file of LOCK would take the lock from the LevelDB in this process.
                std::mem::forget(file);
            }
            Err(Error::InUse { path: dir.to_path_buf(), pid })
        }
        // A file system without locks: LevelDB could not have one either.
        Err(Errno::ENOLCK | Errno::EOPNOTSUPP | Errno::EINVAL) => Ok(SourceLock(None)),
        Err(error) => Err(Error::io("lock", path, error.into())),
    }
}

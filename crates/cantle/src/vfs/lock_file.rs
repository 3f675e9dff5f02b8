//! The content of a lock file: the process id of an exclusive holder, as decimal text.

use super::VfsFile;
use std::io;

/// Replaces the content of a lock file by this process's id. A full disk is no error: the id is
/// only information for a process that finds the lock held.
pub(super) fn write_pid(file: &dyn VfsFile) -> io::Result<()> {
    file.set_len(0)?;
    match file.write_at(format!("{}\n", std::process::id()).as_bytes(), 0) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
        done => done,
    }
}

/// The process id in a lock file; `None` if there is none, for example because its holder is about
/// to write it.
pub(super) fn pid_in(file: &dyn VfsFile) -> Option<u32> {
    // The longest id has ten digits; a longer content was not written by `write_pid`.
    let mut bytes = [0; 16];
    let read = file.read_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(&bytes[..read]).ok()?.trim_end().parse().ok()
}

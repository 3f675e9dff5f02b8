//! What a lock file holds: the process id of an exclusive holder, as decimal text.

use super::VfsFile;
use std::io;

/// Replaces the content of a lock file by this process's id. On a full disk the lock does without: what it says is
/// for who finds it held.
pub(super) fn write_pid(file: &dyn VfsFile) -> io::Result<()> {
    file.set_len(0)?;
    match file.write_at(format!("{}\n", std::process::id()).as_bytes(), 0) {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
        done => done,
    }
}

/// The process id in a lock file; `None` if there is none, be it that its holder is about to write it.
pub(super) fn pid_in(file: &dyn VfsFile) -> Option<u32> {
    // The longest is ten digits; what is longer was not written by `write_pid`.
    let mut bytes = [0; 16];
    let read = file.read_at(&mut bytes, 0).ok()?;
    std::str::from_utf8(&bytes[..read]).ok()?.trim_end().parse().ok()
}

//! Removes mapped pages from another process, as the kernel does when memory is short.

use std::io;
use std::path::Path;

/// Pages out the clean mapped pages of files in `dir` from a stopped process. Returns the number of
/// bytes that were removed.
pub fn page_out(process: u32, dir: &Path) -> io::Result<u64> {
    let before = resident(process, dir)?;
    for [start, end] in mappings(process, dir)?.map(|mapping| mapping.range) {
        advise(process, start, end - start)?;
    }
    Ok(before.saturating_sub(resident(process, dir)?))
}

struct Mapping {
    range: [usize; 2],
    resident_bytes: u64,
}

fn resident(process: u32, dir: &Path) -> io::Result<u64> {
    Ok(mappings(process, dir)?.map(|mapping| mapping.resident_bytes).sum())
}

/// From `/proc/PID/smaps`: a line `START-END PERMS OFFSET DEVICE INODE PATH`, then lines of which
/// one is `Rss: N kB`.
fn mappings(process: u32, dir: &Path) -> io::Result<impl Iterator<Item = Mapping>> {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps"))?;
    let mut found = Vec::new();
    let mut is_ours = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if let Some((start, end)) = words.first().and_then(|first| first.split_once('-')) {
            is_ours = words.get(5).is_some_and(|path| Path::new(path).starts_with(dir));
            let address = |text| usize::from_str_radix(text, 16).map_err(io::Error::other);
            if is_ours {
                found.push(Mapping { range: [address(start)?, address(end)?], resident_bytes: 0 });
            }
        } else if let (true, ["Rss:", kilobytes, ..], Some(last)) = (is_ours, &words[..], found.last_mut()) {
            last.resident_bytes = kilobytes.parse::<u64>().map_err(io::Error::other)? << 10;
        }
    }
    Ok(found.into_iter())
}

#[expect(unsafe_code, reason = "a call that no library has")]
fn advise(process: u32, start: usize, len: usize) -> io::Result<()> {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    // SAFETY: the result, if it is no error, is a descriptor that has no other owner.
    let held = unsafe {
        match libc::syscall(libc::SYS_pidfd_open, process, 0) {
            -1 => return Err(io::Error::last_os_error()),
            descriptor => OwnedFd::from_raw_fd(descriptor as i32),
        }
    };
    let range = libc::iovec { iov_base: start as *mut libc::c_void, iov_len: len };
    // SAFETY: advice about memory of another process, whose contents do not change: pages are read
    // again from their file.
    let done = unsafe {
        libc::syscall(libc::SYS_process_madvise, held.as_raw_fd(), &raw const range, 1, libc::MADV_PAGEOUT, 0)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

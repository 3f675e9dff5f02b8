//! The identity of the page cache in front of a device: if it is unchanged, unsynced writes of a
//! dead process are still there.
//!
//! A page cache ends with the boot or with the mounted superblock. Linux gives every mounted
//! superblock of the common file systems a directory `/sys/fs/<type>/<device>`. It is created at
//! each mount, so its inode number is one that no other mount had since boot; bind mounts and other
//! mount points of the same superblock share it. On Btrfs the directory is named by the identifier
//! of the file system. There the subvolume belongs to the identity, too, as a snapshot of an open
//! store lacks the writes that its process had not yet written back. On tmpfs the pages are the
//! storage, so boot and device suffice. Other file systems (network and stacked ones, FUSE, devices
//! with several names) get no identity, and neither does a process that cannot read `/proc` or
//! `/sys`. The only cost is the loss of the writes since the last checkpoint when the process dies.
//!
//! A superblock that was mounted again is never trusted, because a program cannot learn how the
//! previous mount ended. Errors of the write-back at an unmount are reported to nobody. The marks
//! of a clean unmount (the recovery flag of ext4, the unmount record of XFS) are cleared by the
//! next mount; if they are missing, that mount replays the journal without a trace. And no counter
//! of the device distinguishes a forced end (`EXT4_IOC_SHUTDOWN`) from another.
#![expect(clippy::disallowed_methods, reason = "/proc and /sys are no files of the store")]

#[cfg(all(target_os = "linux", not(miri)))]
use super::btrfs;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The identity of the page cache of an open directory. An error if it could not be determined just
/// now. This must not be treated as no identity, because then the writes of a dead process would be
/// discarded.
pub(super) fn identity(dir: &File) -> io::Result<Option<Vec<u8>>> {
    let Some(boot) = there(fs::read_to_string("/proc/sys/kernel/random/boot_id"))? else { return Ok(None) };
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Some(btrfs::Volume { file_system, subvolume }) = btrfs::volume_of(dir)? {
        let superblock = there(fs::metadata(Path::new("/sys/fs/btrfs").join(&file_system)))?;
        let name = |inode| format!("{} btrfs {file_system} {inode} {subvolume}", boot.trim()).into_bytes();
        return Ok(superblock.map(|entry| name(entry.ino())));
    }
    identity_of_device(&boot, dir.metadata()?.dev())
}

/// The same for `device`, a directory's `st_dev`.
fn identity_of_device(boot: &str, device: u64) -> io::Result<Option<Vec<u8>>> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // Mount points may contain any bytes; the fields compared here are ASCII.
    let Some(mounts) = there(fs::read("/proc/self/mountinfo"))? else { return Ok(None) };
    let mounts = String::from_utf8_lossy(&mounts);
    let Some(kind) = file_system_type(&mounts, major, minor) else { return Ok(None) };
    let superblock = match kind {
        "tmpfs" => Some("tmpfs".to_owned()),
        kind => superblock_inode(kind, major, minor)?.map(|inode| inode.to_string()),
    };
    let name = |superblock| format!("{} {major}:{minor} {kind} {superblock}", boot.trim()).into_bytes();
    Ok(superblock.map(name))
}

/// `None` for a file that does not exist, or that this process may not see, now or later.
fn there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(it) => Ok(Some(it)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory => {
                Ok(None)
            }
            _ => Err(error),
        },
    }
}

/// The type of the file system on a device, from the text of `/proc/self/mountinfo`:
/// `36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/source rw`.
fn file_system_type(mounts: &str, major: u32, minor: u32) -> Option<&str> {
    let device = format!("{major}:{minor}");
    mounts.lines().filter(|line| line.split(' ').nth(2) == Some(&device)).find_map(|line| {
        let (_, after) = line.split_once(" - ")?;
        after.split(' ').next().filter(|kind| !kind.is_empty() && !kind.contains(['/', '.']))
    })
}

fn superblock_inode(kind: &str, major: u32, minor: u32) -> io::Result<Option<u64>> {
    // The kernel's own name of the device, independent of the path by which it was mounted.
    let Some(link) = there(fs::read_link(format!("/sys/dev/block/{major}:{minor}")))? else {
        return Ok(None);
    };
    // The ext4 driver mounts its predecessors, too.
    let driver = if matches!(kind, "ext2" | "ext3") { "ext4" } else { kind };
    let Some(name) = link.file_name() else { return Ok(None) };
    let entry = there(fs::metadata(Path::new("/sys/fs").join(driver).join(name)))?;
    Ok(entry.map(|entry| entry.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard
28 27 254:0 /srv /mnt/a\\040b rw - ext4 /dev/vda rw
30 27 254:1 / /torn rw
31 27 0:25 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684100k
";

    #[test]
    fn the_type_is_found_by_device_behind_any_number_of_optional_fields() {
        assert_eq!(file_system_type(MOUNTS, 254, 0), Some("ext4"));
        assert_eq!(file_system_type(MOUNTS, 0, 25), Some("tmpfs"));
        assert_eq!(file_system_type(MOUNTS, 0, 2), None);
        assert_eq!(file_system_type(MOUNTS, 254, 1), None);
        assert_eq!(file_system_type("", 254, 0), None);
    }

    #[test]
    fn a_device_that_is_not_mounted_has_no_identity() {
        assert_eq!(identity_of_device("boot", u64::MAX).unwrap(), None);
    }
}

//! The file system and the subvolume that a directory of Btrfs belongs to.
//!
//! Btrfs gives every subvolume its own device number, a new one at each mount, without a block
//! device. Two calls of Btrfs identify both: the identifier of the file system, under which
//! `/sys/fs/btrfs` lists the mounted superblock, and the number of the subvolume, which no other
//! subvolume of the file system has or will have. A snapshot is a subvolume, too.
#![expect(unsafe_code, reason = "two calls that no library has")]

use rustix::fs::fstatfs;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use std::fs::File;
use std::io;

/// `BTRFS_SUPER_MAGIC`.
const MAGIC: u64 = 0x9123_683e;

/// `struct btrfs_ioctl_fs_info_args`.
#[repr(C, align(8))]
struct FileSystemInfo {
    /// The highest number of a device, and the number of devices.
    _devices: [u64; 2],
    id: [u8; 16],
    _rest: [u8; 992],
}

/// `struct btrfs_ioctl_get_subvol_info_args`.
#[repr(C, align(8))]
struct SubvolumeInfo {
    number: u64,
    _name: [u8; 256],
    /// The number of the parent and the directory in it, the generation and the flags.
    _place: [u64; 4],
    id: [u8; 16],
    /// The identifiers of the parent and of the received subvolume, and the times of changes.
    _rest: [u8; 192],
}

/// `_IOR(0x94, 31, struct btrfs_ioctl_fs_info_args)`.
const FS_INFO: Opcode = opcode::read::<FileSystemInfo>(0x94, 31);
/// `_IOR(0x94, 60, struct btrfs_ioctl_get_subvol_info_args)`.
const GET_SUBVOL_INFO: Opcode = opcode::read::<SubvolumeInfo>(0x94, 60);

const _: () = assert!(size_of::<FileSystemInfo>() == 1024 && size_of::<SubvolumeInfo>() == 504);

/// The file system and subvolume of a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Volume {
    /// The name of the file system's directory in `/sys/fs/btrfs`.
    pub file_system: String,
    /// The subvolume's number and identifier. The number alone is enough while the file system
    /// stays mounted.
    pub subvolume: String,
}

/// The place of an open directory; `None` if it is not on Btrfs, or the kernel does not answer
/// (before Linux 4.18).
pub(super) fn volume_of(dir: &File) -> io::Result<Option<Volume>> {
    // The magic number has 32 bits, and its field is signed on some machines.
    if fstatfs(dir)?.f_type as u64 & 0xffff_ffff != MAGIC {
        return Ok(None);
    }
    let Some(file_system) = file_system_info(dir)? else { return Ok(None) };
    let Some(subvolume) = subvolume_info(dir)? else { return Ok(None) };
    let subvolume = format!("{} {}", subvolume.number, hyphenated(subvolume.id));
    canary!(SUBVOLUME_IGNORED => let subvolume = String::new());
    Ok(Some(Volume { file_system: hyphenated(file_system.id), subvolume }))
}

fn file_system_info(dir: &File) -> io::Result<Option<FileSystemInfo>> {
    let mut info = FileSystemInfo { _devices: [0; 2], id: [0; 16], _rest: [0; 992] };
    // SAFETY: the call reads and writes one `struct btrfs_ioctl_fs_info_args`. `FileSystemInfo` has
    // its size and alignment, and any bytes are a value of it.
    let asked = unsafe { ioctl(dir, Updater::<FS_INFO, FileSystemInfo>::new(&mut info)) };
    Ok(is_answered(asked)?.then_some(info))
}

fn subvolume_info(dir: &File) -> io::Result<Option<SubvolumeInfo>> {
    let mut info = SubvolumeInfo { number: 0, _name: [0; 256], _place: [0; 4], id: [0; 16], _rest: [0; 192] };
    // SAFETY: the call writes one `struct btrfs_ioctl_get_subvol_info_args`. `SubvolumeInfo` has
    // its size and alignment, and any bytes are a value of it.
    let asked = unsafe { ioctl(dir, Updater::<GET_SUBVOL_INFO, SubvolumeInfo>::new(&mut info)) };
    Ok(is_answered(asked)?.then_some(info))
}

fn is_answered(result: rustix::io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        // The kernel, or a layer between it and this process, does not know the call; or the
        // subvolume is being deleted.
        Err(
            Errno::NOTTY
            | Errno::INVAL
            | Errno::OPNOTSUPP
            | Errno::NOSYS
            | Errno::PERM
            | Errno::ACCESS
            | Errno::NOENT,
        ) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// An identifier as the kernel prints it.
fn hyphenated(id: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (index, byte) in id.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::std_fs::open_directory;
    use super::*;
    use rustix::fs::CWD;
    use std::path::Path;

    #[test]
    fn identifiers_are_printed_as_the_kernel_does() {
        let id = std::array::from_fn(|index| index as u8 * 0x11);
        assert_eq!(hyphenated(id), "00112233-4455-6677-8899-aabbccddeeff");
    }

    #[test]
    fn other_file_systems_have_no_subvolumes() {
        let proc = open_directory((CWD, Path::new("/proc/self"))).unwrap();
        assert_eq!(volume_of(&proc).unwrap(), None);
        // These file systems do not know the calls either.
        assert!(file_system_info(&proc).unwrap().is_none() && subvolume_info(&proc).unwrap().is_none());
    }
}

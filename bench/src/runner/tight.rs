//! A file system with little more space than the data of a cell.

use super::LEFT_OUT;
use crate::failure::{Failure, Result, on};
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Space that the file system needs for itself: its journal, and a part of its size.
const OWN_BYTES: u64 = 80 << 20;
const OWN_FRACTION: u64 = 12;

/// A mounted file system in a file. Dropping it unmounts it and removes the file.
pub struct TightDisk {
    dir: PathBuf,
    image: PathBuf,
}

impl TightDisk {
    /// Mounts one in this directory, with this many bytes free.
    pub fn mount(dir: &Path, free_bytes: u64) -> Result<Self> {
        let own = Self { dir: dir.to_path_buf(), image: dir.with_extension("image") };
        fs::create_dir_all(dir).map_err(on("create", dir))?;
        let image = File::create(&own.image).map_err(on("create", &own.image))?;
        image
            .set_len(free_bytes + free_bytes / OWN_FRACTION + OWN_BYTES)
            .map_err(on("extend", &own.image))?;
        let path = own.image.to_string_lossy().into_owned();
        call("mkfs.ext4", &["-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,nodiscard", &path])?;
        // Without a second copy in the page cache, which no limit of memory would count.
        let device = call("losetup", &["--find", "--show", "--direct-io=on", &path])?;
        let mounted = call("mount", &[&device, &dir.to_string_lossy()]);
        // From now on it goes when it is unmounted.
        call("losetup", &["--detach", &device])?;
        mounted?;
        let filler = dir.join("filler");
        let file = File::create(&filler).map_err(on("create", &filler))?;
        let free = |dir: &Path| statvfs(dir).map(|stat| stat.f_bavail * stat.f_frsize);
        let too_much = free(dir)?.saturating_sub(free_bytes);
        if too_much > 0 {
            fallocate(&file, FallocateFlags::empty(), 0, too_much)?;
        }
        Ok(own)
    }

    /// Unmounts what a run that was killed has left in the directory.
    pub fn unmount_left(dir: &Path) {
        if dir.join("filler").exists() {
            let _ = call("umount", &[&dir.to_string_lossy()]);
            let _ = fs::remove_file(dir.with_extension("image"));
        }
    }
}

impl Drop for TightDisk {
    fn drop(&mut self) {
        let _ = call("umount", &[&self.dir.to_string_lossy()]);
        let _ = fs::remove_file(&self.image);
    }
}

/// Runs a command, and returns its output. Where it does not work, there are no such disks.
fn call(command: &str, arguments: &[&str]) -> Result<String> {
    let left_out = |why: &str| Failure(format!("{LEFT_OUT}: {command} makes no disk here: {why}"));
    let output = Command::new(command).args(arguments).output().map_err(|e| left_out(&e.to_string()))?;
    if !output.status.success() {
        return Err(left_out(String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tight_disk_has_the_space_that_is_asked_for() {
        let work = tempfile::tempdir().unwrap();
        let dir = work.path().join("trial");
        let disk = match TightDisk::mount(&dir, 100 << 20) {
            Ok(disk) => disk,
            Err(failure) if failure.0.starts_with(LEFT_OUT) => {
                eprintln!("{failure}");
                return;
            }
            Err(failure) => panic!("{failure}"),
        };
        let free = statvfs(&dir).map(|stat| stat.f_bavail * stat.f_frsize).unwrap() >> 10;
        assert!((99 << 10..=100 << 10).contains(&free), "{free} KiB are free");
        assert!(fs::write(dir.join("long"), vec![1; 101 << 20]).is_err(), "there is more");
        drop(disk);
        assert!(fs::read_dir(&dir).unwrap().next().is_none() && !work.path().join("trial.image").exists());
    }
}

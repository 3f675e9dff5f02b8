//! File systems on images in memory or in files, always unmounted at the end.

use crate::files::dir_in_memory;
use crate::visit::Visit;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// Runs a program. If it fails, the error is its standard error.
pub fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    let (out, complaints) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        Ok(out.trim().to_owned())
    } else {
        Err(format!("{program} {}: {}", arguments.join(" "), complaints.trim()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ext4,
    Xfs,
    Btrfs,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];
    /// File systems that write in place and have a journal; they can drop all data that were not
    /// synced.
    pub const JOURNALED: [Self; 2] = [Self::Ext4, Self::Xfs];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    fn make(self, image: &str) -> Result<String, String> {
        match self {
            Self::Ext4 => run("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=1,nodiscard", image]),
            Self::Xfs => run("mkfs.xfs", &["-q", "-f", image]),
            Self::Btrfs => run("mkfs.btrfs", &["-q", "-f", "--nodiscard", image]),
        }
    }
}

/// A mounted file system.
#[derive(Debug)]
pub struct Mounted {
    dir: PathBuf,
}

impl Mounted {
    fn new(arguments: &[&str], dir: &Path) -> Result<Self, String> {
        let path = dir.to_str().ok_or("a path that is no text")?;
        run("mount", &[arguments, &[path]].concat())?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// A file system in memory, of `bytes` bytes.
    pub fn tmpfs(dir: &Path, bytes: u64) -> Result<Self, String> {
        Self::new(&["-t", "tmpfs", "-o", &format!("size={bytes}"), "cantle-faults"], dir)
    }

    /// Changes the size of a file system in memory.
    pub fn resize(&self, bytes: u64) -> Result<(), String> {
        let dir = self.dir.to_string_lossy();
        run("mount", &["-o", &format!("remount,size={bytes}"), &dir]).map(drop)
    }

    /// Makes the file system read-only for a moment, then writable again; it stays mounted.
    pub fn remount(&self) -> Result<(), String> {
        let dir = self.dir.to_string_lossy();
        ["remount,ro", "remount,rw"].iter().try_for_each(|how| run("mount", &["-o", how, &dir]).map(drop))
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Drops everything that was not synced, as a loss of power does.
    #[expect(unsafe_code, reason = "a call that no library has")]
    pub fn shut_down(&self) -> std::io::Result<()> {
        use std::os::fd::AsRawFd;
        /// `EXT4_IOC_SHUTDOWN` and `XFS_IOC_GOINGDOWN`: `_IOR('X', 125, u32)`.
        const SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
        /// The journal is not written either.
        const NO_LOG_FLUSH: u32 = 2;
        let dir = std::fs::File::open(&self.dir)?;
        // SAFETY: the call reads one number at the address.
        let done = unsafe { libc::ioctl(dir.as_raw_fd(), SHUTDOWN, std::ptr::from_ref(&NO_LOG_FLUSH)) };
        if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    }

    /// Writes everything out. Mapped pages are clean then, and the next store to one calls the file
    /// system.
    pub fn sync(&self) {
        let _ = run("sync", &["--file-system", &self.dir.to_string_lossy()]);
    }

    /// Unmounts the file system; waits a moment for files that are still open.
    pub fn unmount(self) -> Result<(), String> {
        let unmounted = self.try_unmount();
        if unmounted.is_ok() {
            std::mem::forget(self);
        }
        unmounted
    }

    fn try_unmount(&self) -> Result<(), String> {
        let mut outcome = Ok(());
        for _ in 0..100 {
            outcome = run("umount", &[&self.dir.to_string_lossy()]).map(drop);
            if outcome.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        outcome.map_err(|error| format!("{error} It is in use by {:?}.", users(&self.dir)))
    }
}

/// The processes that have a file under `dir` open or mapped, each with such a path.
fn users(dir: &Path) -> Vec<String> {
    let links = |process: &Path| {
        let fds = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        let links = fds.map(|fd| fd.path()).chain(["cwd", "root", "exe"].map(|name| process.join(name)));
        links.filter_map(|link| std::fs::read_link(link).ok()).collect::<Vec<PathBuf>>()
    };
    let mapped = |process: &Path| {
        let maps = std::fs::read_to_string(process.join("maps")).unwrap_or_default();
        let paths = maps.lines().filter_map(|line| Some(PathBuf::from(&line[line.find('/')?..])));
        paths.collect::<Vec<PathBuf>>()
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let used = processes.filter_map(|process| {
        let path = links(&process).into_iter().chain(mapped(&process)).find(|path| path.starts_with(dir))?;
        let command = std::fs::read_to_string(process.join("cmdline")).unwrap_or_default();
        Some(format!("{} ({}): {}", process.display(), command.replace('\0', " ").trim(), path.display()))
    });
    used.collect()
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.try_unmount().is_err() {
            // It is unmounted when the last file is closed.
            let _ = run("umount", &["--lazy", &self.dir.to_string_lossy()]);
        }
    }
}

/// A file system in a file. It can lose data that are not yet written to the file.
#[derive(Debug)]
pub struct Image {
    pub kind: Kind,
    file: PathBuf,
    // Mounts are dropped before the file system that they are on.
    on: Option<Mounted>,
    dirs: TempDir,
}

impl Image {
    /// A new image of `bytes` bytes, as a sparse file.
    pub fn new(kind: Kind, bytes: u64) -> Result<Self, String> {
        Self::make(kind, bytes, None)
    }

    /// A new image in a file system in memory that has `room_bytes` for it.
    pub fn on_tmpfs(kind: Kind, bytes: u64, room_bytes: u64) -> Result<Self, String> {
        Self::make(kind, bytes, Some(room_bytes))
    }

    fn make(kind: Kind, bytes: u64, room_bytes: Option<u64>) -> Result<Self, String> {
        let dirs = dir_in_memory().map_err(|error| error.to_string())?;
        let (below, above) = (dirs.path().join("below"), dirs.path().join("above"));
        for dir in [&below, &above] {
            std::fs::create_dir(dir).map_err(|error| error.to_string())?;
        }
        let on = room_bytes.map(|room_bytes| Mounted::tmpfs(&below, room_bytes)).transpose()?;
        let file = below.join("image");
        let sparse = std::fs::File::create_new(&file).and_then(|file| file.set_len(bytes));
        sparse.map_err(|error| error.to_string())?;
        let image = Self { kind, file, on, dirs };
        kind.make(&image.file.to_string_lossy())?;
        Ok(image)
    }

    pub fn mount(&self) -> Result<Mounted, String> {
        let arguments = ["-t", self.kind.name(), "-o", "loop", &*self.file.to_string_lossy()];
        Mounted::new(&arguments, &self.dirs.path().join("above"))
    }

    /// Resets the device to its present contents after `between`, as if its power had failed
    /// before. Needs a file system that is not in use.
    pub fn cut_off<T>(&self, between: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let now = self.file.with_extension("now");
        let written = || std::fs::metadata(&self.file).and_then(|found| found.modified());
        let text = |error: std::io::Error| error.to_string();
        // The kernel may write at the same time, and a copy must be of one moment.
        loop {
            let before = written().map_err(text)?;
            run("cp", &["--sparse=always", &self.file.to_string_lossy(), &now.to_string_lossy()])?;
            if written().map_err(text)? == before {
                break;
            }
        }
        let done = between()?;
        std::fs::rename(&now, &self.file).map_err(text)?;
        Ok(done)
    }

    /// A directory next to the image, on another file system.
    pub fn beside(&self) -> PathBuf {
        self.dirs.path().join("below")
    }

    /// The file system that the image is on, if it is one of its own.
    pub fn below(&self) -> Option<&Mounted> {
        self.on.as_ref()
    }

    pub fn file(&self) -> &Path {
        &self.file
    }
}

/// True if file systems can be made and mounted here; reports the reason if not.
pub fn are_possible(visit: &Visit, kind: Kind) -> bool {
    let image = Image::new(kind, 512 << 20);
    match image.and_then(|image| image.mount().and_then(Mounted::unmount)) {
        Ok(()) => true,
        Err(error) => {
            visit.skip(kind.name(), format_args!("on an image: {error}"));
            false
        }
    }
}

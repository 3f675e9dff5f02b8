//! A store that another program has open, seen through its socket (`Options::monitor` of the library).

use crate::failure::{Failure, Outcome};
use cantle::Stats;
use cantle::stats::RegionInfo;
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest wait for an answer, which takes moments. A backup has no limit.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The socket of a store, to which each request connects anew.
pub(crate) struct Monitored {
    path: PathBuf,
    /// The store's directory: the path of a socket has at most 107 bytes, and a descriptor is short.
    directory: OwnedFd,
}

#[derive(Deserialize)]
struct Response<T> {
    #[serde(default = "Option::default")]
    answer: Option<T>,
    error: Option<String>,
}

impl Monitored {
    /// The store in directory `path`, if a program has it open and answers.
    pub(crate) fn find(path: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty()).ok()?;
        let found = Self { path: path.to_path_buf(), directory };
        found.connect().is_ok().then_some(found)
    }

    fn connect(&self) -> std::io::Result<UnixStream> {
        UnixStream::connect(format!("/proc/self/fd/{}/MONITOR", self.directory.as_raw_fd()))
    }

    /// The store's statistics.
    pub(crate) fn stats(&self) -> Outcome<Stats> {
        self.ask(&json!({ "request": "stats" }), Some(TIMEOUT))
    }

    /// The regions of a keyspace in key order.
    pub(crate) fn regions(&self, keyspace: &str) -> Outcome<Vec<RegionInfo>> {
        self.ask(&json!({ "request": "regions", "keyspace": keyspace }), Some(TIMEOUT))
    }

    /// The metadata of a keyspace.
    pub(crate) fn metadata(&self, keyspace: &str) -> Outcome<Vec<u8>> {
        self.ask(&json!({ "request": "metadata", "keyspace": keyspace }), Some(TIMEOUT))
    }

    /// Has the program write a backup.
    pub(crate) fn backup(&self, directory: &Path) -> Outcome {
        let absolute = std::path::absolute(directory)
            .map_err(|error| Failure::Failed(format!("cannot find {}: {error}", directory.display())))?;
        let Some(absolute) = absolute.to_str() else {
            return Err(Failure::Usage("the path of a backup by another program is to be UTF-8".into()));
        };
        self.send(&json!({ "request": "backup", "directory": absolute }), None).map(drop)
    }

    fn ask<T: DeserializeOwned>(&self, request: &serde_json::Value, timeout: Option<Duration>) -> Outcome<T> {
        let line = self.send(request, timeout)?;
        let response: Response<T> = serde_json::from_str(&line).map_err(|error| self.garbled(&error))?;
        response.answer.ok_or_else(|| self.garbled(&"there is no answer in it"))
    }

    /// The line that answers a request, unless that is an error.
    fn send(&self, request: &serde_json::Value, timeout: Option<Duration>) -> Outcome<String> {
        let exchange = || -> std::io::Result<String> {
            let mut stream = self.connect()?;
            stream.set_read_timeout(timeout)?;
            stream.write_all(format!("{request}\n").as_bytes())?;
            let mut line = String::new();
            stream.read_to_string(&mut line)?;
            Ok(line)
        };
        let line = exchange().map_err(|error| {
            Failure::Failed(format!(
                "the program that has {} open does not answer ({error}): has it ended?",
                self.path.display()
            ))
        })?;
        if line.is_empty() {
            return Err(Failure::Failed(format!(
                "the program that has {} open gives no answer: it serves its own user and root, and a few \
                 commands at once",
                self.path.display()
            )));
        }
        let response: Response<serde_json::Value> =
            serde_json::from_str(&line).map_err(|error| self.garbled(&error))?;
        match response.error {
            Some(error) => Err(Failure::Failed(error)),
            None => Ok(line),
        }
    }

    fn garbled(&self, error: &dyn std::fmt::Display) -> Failure {
        Failure::Failed(format!(
            "the program that has {} open gives an answer that cannot be read ({error}): is it of another \
             version?",
            self.path.display()
        ))
    }
}

//! A child process with one store, in a control group of its own.

use super::{Failure, Result};
use crate::job::Job;
use crate::measure::group::{self, Group};
use crate::record::Outcome;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Numbers groups of this process.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Maximum number of bytes of a failed child's error output that are kept.
const SAID_BYTES: i64 = 2_000;

/// A running child. It is killed at the latest when this is dropped.
pub struct Child {
    process: std::process::Child,
    group: Option<Group>,
    /// Its standard error.
    said: std::fs::File,
    line: Receiver<String>,
    until: Instant,
}

/// A child that can be waited for.
pub trait Ended {
    /// Waits for its end.
    fn end(self) -> Result<Outcome>;
}

impl Child {
    /// Starts a child with a limit of memory, and sends it `job`.
    pub fn start(job: &Job, limit_bytes: Option<u64>, timeout: Duration) -> Result<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = limit_bytes.map(|bytes| Group::new(&group::name(number), bytes)).transpose()?;
        let said = tempfile::tempfile()?;
        let mut process = Command::new(std::env::current_exe()?)
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(said.try_clone()?)
            .spawn()?;
        let output = process.stdout.take();
        let (sender, line) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            if let Some(output) = output {
                // An error has the same effect as an end of the output: there is no outcome.
                let _ = BufReader::new(output).read_line(&mut text);
            }
            let _ = sender.send(text);
        });
        let mut child = Self { process, group, said, line, until: Instant::now() + timeout };
        if let Some(group) = &child.group {
            group.add(child.process.id())?;
        }
        let mut text = serde_json::to_string(job)?;
        text.push('\n');
        match child.process.stdin.as_mut() {
            // The input stays open, since the child ends when it ends.
            Some(input) => input.write_all(text.as_bytes())?,
            None => return Err(Failure::new("the child has no input")),
        }
        Ok(child)
    }

    /// Waits for the child's measurements.
    pub fn outcome(&mut self) -> Result<Outcome> {
        let left = self.until.saturating_duration_since(Instant::now());
        let line = match self.line.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                self.kill()?;
                return Err(Failure::new("it took too long and was killed"));
            }
            Err(RecvTimeoutError::Disconnected) => String::new(),
        };
        // A child that dies while it prints the line has failed, too.
        if !line.ends_with('\n') {
            let status = self.process.wait()?;
            return Err(self.failure(status));
        }
        let mut outcome: Outcome = serde_json::from_str(&line)?;
        if let Some(group) = &self.group {
            outcome.group_peak_bytes = group.peak_bytes();
            outcome.group_device_bytes = group.device_bytes();
        }
        Ok(outcome)
    }

    fn failure(&mut self, status: ExitStatus) -> Failure {
        if self.group.as_ref().is_some_and(|group| group.kills() > 0) {
            return Failure::new("killed by the kernel: it took more memory than the limit");
        }
        let how = match status.signal() {
            Some(signal) => format!("ended by signal {signal}"),
            None => format!("failed ({})", status.code().unwrap_or(-1)),
        };
        let mut said = String::new();
        let end = self.said.seek(SeekFrom::End(0)).unwrap_or(0) as i64;
        let start = SeekFrom::Start((end - SAID_BYTES).max(0) as u64);
        // The error output is additional; if it cannot be read, it is left out.
        let _ = self.said.seek(start).and_then(|_| self.said.read_to_string(&mut said));
        Failure(format!("{how}: {}", said.trim()))
    }

    /// Sends SIGKILL: the child can neither flush nor close anything.
    pub fn kill(&mut self) -> Result {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Ended for Child {
    fn end(mut self) -> Result<Outcome> {
        let outcome = self.outcome()?;
        let status = self.process.wait()?;
        if status.success() { Ok(outcome) } else { Err(self.failure(status)) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The child has mostly ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

//! A directory in which the program is run as a user runs it.
#![allow(dead_code, reason = "each test uses a part")]

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A directory with stores and files.
pub struct Place(TempDir);

/// The outcome of a run of the program.
pub struct Ran {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ran {
    /// Standard output of a run that must have succeeded.
    #[track_caller]
    pub fn text(&self) -> String {
        assert_eq!(self.code, 0, "{}", self.err);
        String::from_utf8(self.out.clone()).unwrap()
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text()).unwrap()
    }

    #[track_caller]
    pub fn lines(&self) -> Vec<String> {
        self.text().lines().map(str::to_owned).collect()
    }

    /// The run must have failed with this code and one line about `says`.
    #[track_caller]
    pub fn fails(&self, code: i32, says: &str) {
        assert_eq!(self.code, code, "{}", self.err);
        assert!(self.err.contains(says), "{}", self.err);
        assert!(code == 2 || self.err.lines().any(|line| line.starts_with("cantle: ")), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }
}

impl Place {
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cantle"));
        command.args(arguments).current_dir(self.0.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = self.command(arguments).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // The program may end without reading all of it.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        Ran { code: output.status.code().unwrap(), out: output.stdout, err }
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, b"")
    }

    /// All pairs as they lie in the store.
    #[track_caller]
    pub fn pairs(&self, store: &str) -> String {
        self.run(&["scan", store, "--format", "hex"]).text()
    }

    /// A store of a few flights.
    #[track_caller]
    pub fn flights(&self) {
        self.file("flights.csv", FLIGHTS);
        self.run(&["load", "flights", "--csv", "flights.csv", "--key", KEY]).text();
    }
}

pub const KEY: &str = "carrier,origin,time_hour:time,flight:int";

pub const FLIGHTS: &str = "\
carrier,flight,origin,dest,time_hour,note
UA,1545,EWR,IAH,2013-07-04T09:00:00Z,
UA,9,EWR,ORD,2013-07-04T11:00:00+02:00,\"quick, \"\"short\"\"\"
UA,20,EWR,SFO,2013-07-04T10:30:00.5Z,\"two
lines\"
DL,7,LGA,ATL,2013-07-04T08:00:00Z,-
DL,-7,LGA,ATL,2013-07-04T08:00:00Z,ä
,3,LGA,ATL,,no carrier
";

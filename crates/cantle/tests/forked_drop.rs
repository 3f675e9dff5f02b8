//! A forked child drops the store that it inherited, and its parent dies afterwards: no data are
//! lost.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]
#![expect(clippy::disallowed_methods, reason = "looks at the store's files from outside")]
#![expect(unsafe_code, reason = "forks")]

use cantle::{Db, Error, Options};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// The variable with the store, in the process that forks and dies.
const PARENT: &str = "CANTLE_TEST_FORKS";
const NAME: &str = "what_a_dead_parent_had_acknowledged_outlives_the_drop_of_its_child";

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// Puts of which some appends go to their logs, the rest to the write buffer.
fn put(db: &Db, numbers: std::ops::Range<u64>) {
    for keyspace in ["one", "two", "three"] {
        let keyspace = db.keyspace(keyspace).unwrap();
        numbers.clone().for_each(|number| keyspace.put(key(number), keyspace.name()).unwrap());
    }
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn fork_and_die(path: &Path) {
    let db = Options::new().checkpoint_interval(std::time::Duration::from_secs(3600)).open(path).unwrap();
    put(&db, 0..200);
    let before = names(path);
    assert!(before.iter().any(|name| name == "WRITE-BUFFER"), "{before:?}");
    // SAFETY: the child only does what a child may do with the library: it drops the inherited
    // store.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: no pointers.
        unsafe { libc::alarm(60) };
        let is_refused = matches!(db.close(), Err(Error::Closed));
        drop(db);
        if !is_refused {
            // SAFETY: as below.
            unsafe { libc::_exit(1) };
        }
        // SAFETY: runs and flushes nothing of the parent's.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child could not drop its store");
    assert_eq!(names(path), before);
    // The parent continues, and is killed.
    put(&db, 200..300);
    std::process::abort();
}

#[test]
fn what_a_dead_parent_had_acknowledged_outlives_the_drop_of_its_child() {
    if let Some(path) = std::env::var_os(PARENT) {
        return fork_and_die(Path::new(&path));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut parent = Command::new(std::env::current_exe().unwrap());
    let output = parent.args(["--exact", NAME, "--nocapture"]).env(PARENT, &path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    let db = Db::open(&path).unwrap();
    for name in ["one", "two", "three"] {
        let keyspace = db.keyspace(name).unwrap();
        for number in 0..300 {
            assert_eq!(
                keyspace.get(key(number)).unwrap().as_deref(),
                Some(name.as_bytes()),
                "{name}, {number}"
            );
        }
    }
    assert!(db.verify().unwrap().is_ok());
}

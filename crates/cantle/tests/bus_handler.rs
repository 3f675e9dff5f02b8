//! The handler of SIGBUS belongs to the process: a store without a write buffer does not change it.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]
#![expect(clippy::disallowed_methods, reason = "looks at the store's files from outside")]
#![expect(unsafe_code, reason = "asks for the handler of a signal")]

use cantle::{Durability, Options};
use std::path::Path;
use std::process::Command;

/// The variables with the directory, in a process whose stores have a write buffer or not.
const WITH: &str = "CANTLE_TEST_WITH_WRITE_BUFFER";
const WITHOUT: &str = "CANTLE_TEST_WITHOUT_WRITE_BUFFER";

/// The handler of SIGBUS; one of Rust's own to begin with.
fn handler() -> usize {
    // SAFETY: all zero is a valid value of this struct of numbers, sets of bits and pointers that
    // may be null.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: reads the installed handler; `action` outlives the call.
    assert_eq!(unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut action) }, 0);
    action.sa_sigaction
}

fn has_file(store: &Path) -> bool {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    std::fs::read_dir(store).unwrap().map(name).any(|name| name.to_string_lossy().contains("WRITE-BUFFER"))
}

/// Writes to several stores. Returns if any of them had the file, and if the handler has changed.
fn write(dir: &Path, options: impl Fn() -> Options) -> (bool, bool) {
    let before = handler();
    let mut had_file = false;
    for durability in [Durability::Process, Durability::Sync] {
        let path = dir.join(format!("{durability:?}"));
        for _opening in 0..2 {
            let db = options().durability(durability).open(&path).unwrap();
            for name in ["one", "two"] {
                let keyspace = db.keyspace(name).unwrap();
                for number in 0..50_u64 {
                    keyspace.put(number.to_be_bytes(), name).unwrap();
                    had_file |= has_file(&path);
                }
                assert_eq!(keyspace.range(..).count(), 50);
            }
            db.close().unwrap();
            assert!(!has_file(&path), "it is removed by closing");
        }
    }
    (had_file, handler() != before)
}

/// Runs the test of this name again, in a process of its own, whose handlers no other test changes.
fn in_a_child(test: &str, variable: &str, child: impl FnOnce(&Path)) {
    if let Some(dir) = std::env::var_os(variable) {
        return child(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test]).env(variable, dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(dir.path().join("Process").is_dir(), "the child did nothing: {output:?}");
}

#[test]
fn no_handler_is_installed_where_no_store_has_a_write_buffer() {
    in_a_child("no_handler_is_installed_where_no_store_has_a_write_buffer", WITHOUT, |dir| {
        assert_eq!(write(dir, || Options::new().write_buffer(false)), (false, false));
    });
}

#[test]
fn a_handler_is_installed_with_the_first_write_buffer() {
    in_a_child("a_handler_is_installed_with_the_first_write_buffer", WITH, |dir| {
        assert_eq!(write(dir, Options::new), (true, true));
    });
}

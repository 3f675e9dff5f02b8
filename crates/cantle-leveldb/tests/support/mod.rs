//! Helpers that the tests with compilers share.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

/// Variable that requires LevelDB, as in `.ci/run`: no test that needs it is left out.
pub const LEVELDB: &str = "CANTLE_REQUIRE_LEVELDB";
/// The same variable for compilers and CMake.
pub const COMPILERS: &str = "CANTLE_REQUIRE_COMPILERS";

pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn is_required(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value == "1")
}

/// Reports a test that is left out. Writes past libtest, which hides the output of tests that pass.
/// Fails if the test is required.
pub fn leave_out(what: &str, variable: &str) {
    assert!(!is_required(variable), "{what}, and {variable} is set");
    std::io::stderr().write_all(format!("left out: {what}\n").as_bytes()).unwrap();
}

pub fn works(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

pub fn has_leveldb() -> bool {
    let installed = Path::new("/usr/include/leveldb/db.h").exists();
    if !installed {
        leave_out("LevelDB is not installed (libleveldb-dev)", LEVELDB);
    }
    installed
}

/// The output of a command, which must succeed.
pub fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}\n{err}");
    out.into_owned()
}

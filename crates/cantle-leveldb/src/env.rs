//! The environment. There is only one: the operating system.

use crate::bytes::copy_text;
use crate::call::{opaque, quietly};
use crate::handles::{Handles, Kind};
use std::ffi::c_char;
use std::ptr::null_mut;

opaque! {
    /// An environment.
    leveldb_env_t,
}

pub static ENVS: Handles<()> = Handles::new(Kind::Env);

/// The operating system.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_default_env() -> *mut leveldb_env_t {
    quietly(null_mut(), || ENVS.insert(()))
}

/// Destroys an environment.
///
/// # Safety
///
/// No other thread uses it at this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_env_destroy(env: *mut leveldb_env_t) {
    quietly((), || drop(ENVS.remove(env)));
}

/// A directory for tests, created if it is missing: `TEST_TMPDIR`, or one of this user's in `/tmp`.
/// The caller frees the name.
///
/// # Safety
///
/// No thread destroys `env` during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_env_get_test_directory(env: *mut leveldb_env_t) -> *mut c_char {
    quietly(null_mut(), || {
        // SAFETY: as the caller promises.
        if unsafe { ENVS.get(env) }.is_none() {
            return null_mut();
        }
        let chosen = std::env::var("TEST_TMPDIR").ok().filter(|dir| !dir.is_empty());
        let user = rustix::process::geteuid().as_raw();
        let dir = chosen.unwrap_or_else(|| format!("/tmp/leveldbtest-{user}"));
        // As in LevelDB, a failure is only noticed when the directory is used.
        let _ = std::fs::create_dir(&dir);
        copy_text(&dir)
    })
}

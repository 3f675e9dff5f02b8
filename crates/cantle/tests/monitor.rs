//! The socket by which other programs look at an open store. In a program of its own, as it runs itself as another user.
#![cfg(all(feature = "monitor", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]
#![expect(unsafe_code, reason = "forks")]
#![expect(clippy::disallowed_methods, reason = "looks at the store's directory from outside")]

use cantle::stats::RegionInfo;
use cantle::{ChunkOptions, Db, Error, KeyspaceOptions, Options, Stats, vfs::MemVfs};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Names the socket to a run of this program that is its client.
const CLIENT: &str = "CANTLE_TEST_MONITOR_CLIENT";

fn open(path: &Path) -> Db {
    Options::new().memory_budget(8 << 20).monitor(true).open(path).unwrap()
}

fn ask(dir: &Path, request: &str) -> Value {
    serde_json::from_str(&ask_at(&dir.join("MONITOR"), request)).unwrap()
}

fn ask_at(socket: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.file_type().is_socket())
}

#[test]
fn other_programs_see_statistics_regions_and_metadata_and_make_backups() {
    let place = tempfile::tempdir().unwrap();
    // Beyond the length that a socket's path may have.
    let dir = place.path().join("long".repeat(40)).join("store");
    let db = open(&dir);
    // A munk that is loaded meanwhile would be seen in one of two statistics.
    let at_rest = KeyspaceOptions::new().layout(ChunkOptions::new().munks(false));
    let other = db.keyspace_with("other", at_rest).unwrap();
    other.set_metadata(b"of the program").unwrap();
    for key in 0..2_000u32 {
        other.put(key.to_be_bytes(), [7; 100]).unwrap();
    }
    // By the directory's descriptor, as a client does.
    let opened = std::fs::File::open(&dir).unwrap();
    let near = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&opened));
    let near = Path::new(&near);
    let stats: Stats =
        serde_json::from_value(ask(near, "{\"request\":\"stats\"}\n")["answer"].take()).unwrap();
    assert_eq!((stats.epoch, stats.keyspaces.len()), (db.stats().epoch, 2));
    assert_eq!(stats.keyspaces[1], other.stats());
    let mut answer = ask(near, "{\"request\":\"regions\",\"keyspace\":\"other\"}\n");
    let regions: Vec<RegionInfo> = serde_json::from_value(answer["answer"].take()).unwrap();
    assert_eq!(regions.len(), other.regions().unwrap().len());
    let metadata = ask(near, "{\"request\":\"metadata\",\"keyspace\":\"other\"}\n");
    assert_eq!(metadata["answer"], serde_json::json!(b"of the program"));
    let copy = place.path().join("copy");
    let request = serde_json::json!({"request": "backup", "directory": copy});
    assert_eq!(ask(near, &format!("{request}\n")), serde_json::json!({"answer": null}));
    assert!(!copy.join("MONITOR").exists());
    assert_eq!(Db::open(&copy).unwrap().keyspace("other").unwrap().range(..).count(), 2_000);
    let again = ask(near, &format!("{request}\n"));
    assert!(again["error"].as_str().unwrap().contains("exists already"), "{again}");
    for (request, reason) in [
        ("{\"request\":\"regions\",\"keyspace\":\"none\"}\n", "\"none\""),
        ("{\"request\":\"backup\",\"directory\":\"relative\"}\n", "is relative"),
        ("{\"request\":\"destroy\"}\n", "is no request"),
        ("\n", "is no request"),
        ("{\"request\":\n", "is no request"),
    ] {
        let answer = ask(near, request);
        assert!(answer["error"].as_str().unwrap().contains(reason), "{answer}");
    }
    let verified = db.verify().unwrap();
    assert!(verified.is_ok() && verified.unknown_files.is_empty());
}

#[test]
fn the_socket_is_the_owners_and_goes_with_the_store() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("store");
    let socket = dir.join("MONITOR");
    let db = open(&dir);
    assert_eq!(socket.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!dir.join("MONITOR.new").exists());
    db.close().unwrap();
    assert!(!socket.exists());
    // As a killed process leaves them.
    drop((UnixListener::bind(&socket).unwrap(), UnixListener::bind(dir.join("MONITOR.new")).unwrap()));
    assert!(is_socket(&socket));
    let reading = Options::new().read_only(true).open(&dir).unwrap();
    assert!(is_socket(&socket), "nothing is written");
    drop(reading);
    drop(Db::open(&dir).unwrap());
    assert!(!socket.exists() && !dir.join("MONITOR.new").exists());
    drop(UnixListener::bind(&socket).unwrap());
    let db = open(&dir);
    assert!(ask(&dir, "{\"request\":\"stats\"}\n")["answer"].is_object());
    drop(db);
    drop(UnixListener::bind(&socket).unwrap());
    Db::destroy(&dir, Options::new()).unwrap();
    assert!(!socket.exists());
    // A file that is no socket is not ours.
    std::fs::write(&socket, "a file").unwrap();
    for monitor in [false, true] {
        drop(Options::new().beside_other_files(true).monitor(monitor).open(&dir).unwrap());
        assert_eq!(std::fs::read_to_string(&socket).unwrap(), "a file");
        assert!(!dir.join("MONITOR.new").exists());
    }
}

#[test]
fn silent_and_endless_clients_keep_nobody_else_waiting() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("store");
    let db = open(&dir);
    let silent: Vec<UnixStream> = (0..7).map(|_| UnixStream::connect(dir.join("MONITOR")).unwrap()).collect();
    assert!(ask(&dir, "{\"request\":\"stats\"}\n")["answer"].is_object());
    // Without an end of line: 8 KiB are read of it.
    let mut endless = UnixStream::connect(dir.join("MONITOR")).unwrap();
    let _ = endless.write_all(&vec![b'x'; 1 << 20]);
    let _ = endless.shutdown(Shutdown::Write);
    // Closing waits for none of them.
    db.close().unwrap();
    drop((silent, endless));
    assert!(UnixStream::connect(dir.join("MONITOR")).is_err());
    // Turned away clients make room again.
    let db = open(&dir);
    for _ in 0..20 {
        let silent = UnixStream::connect(dir.join("MONITOR")).unwrap();
        drop(silent);
    }
    let answered = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        serde_json::from_str::<Value>(&ask_at(&dir.join("MONITOR"), "{\"request\":\"stats\"}\n")).is_ok()
    });
    assert!(answered);
    drop(db);
}

#[test]
fn a_socket_is_refused_where_there_can_be_none() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("store");
    drop(Db::open(&dir).unwrap());
    let refused = |options: Options| match options.monitor(true).open(&dir) {
        Err(Error::InvalidArgument(reason)) => reason,
        opened => panic!("{opened:?}"),
    };
    assert!(refused(Options::new().read_only(true)).contains("only one"));
    assert!(refused(Options::new().vfs(Arc::new(MemVfs::new()))).contains("directory"));
    assert!(!dir.join("MONITOR").exists());
}

/// The child has a copy of each descriptor.
#[test]
fn a_forked_child_does_not_keep_a_store_from_closing() {
    let place = tempfile::tempdir().unwrap();
    let db = open(&place.path().join("store"));
    // SAFETY: the child calls functions that are safe after a fork, and ends.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: no pointers.
        unsafe {
            libc::sleep(60);
            libc::_exit(0)
        }
    }
    db.close().unwrap();
    // SAFETY: no pointers; `child` is this process's own.
    let was_alive = unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::WNOHANG) == 0 };
    // SAFETY: as before.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    assert!(was_alive, "the store closed only after the child had ended");
}

/// As root: the peer's user counts, even where the socket lets everybody in.
#[test]
fn another_user_gets_no_answer() {
    if let Some(socket) = std::env::var_os(CLIENT) {
        let mut answer = String::new();
        let mut stream = UnixStream::connect(socket).unwrap();
        // A server that does not answer may close before it has read.
        let _ = stream.write_all(b"{\"request\":\"stats\"}\n");
        let _ = stream.read_to_string(&mut answer);
        println!("answer: {answer:?}");
        return;
    }
    if std::fs::metadata("/proc/self").map(|found| std::os::unix::fs::MetadataExt::uid(&found)).ok()
        != Some(0)
    {
        println!("left out: only root can run a program as another user");
        return;
    }
    let place = tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir().unwrap();
    let dir = place.path().join("store");
    let db = open(&dir);
    let socket = dir.join("MONITOR");
    for path in [&dir, &socket] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    }
    // Where the other user can run it.
    let program = place.path().join("client");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let run = |user: u32| {
        let mut client = Command::new(&program);
        client.args(["another_user_gets_no_answer", "--exact", "--nocapture"]).env(CLIENT, &socket).uid(user);
        let output = client.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(run(0).contains("answer: \"{\\\"answer\\\""), "{}", run(0));
    assert!(run(65_534).contains("answer: \"\""), "{}", run(65_534));
    drop(db);
}

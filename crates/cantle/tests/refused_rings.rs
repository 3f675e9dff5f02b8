//! A seccomp filter refuses rings (io_uring), or ends the thread that asks for one: a store that asks for a
//! ring reads by hints, and its statistics say so.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]
#![expect(clippy::disallowed_methods, reason = "looks at its own threads from outside")]
#![expect(unsafe_code, reason = "system calls that no library has")]

use cantle::{ChunkOptions, KeyspaceOptions, Options};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

/// The variable with the directory, in a process under a filter.
const UNDER_A_FILTER: &str = "CANTLE_TEST_REFUSES_RINGS";
const PAIRS: u64 = 3_000;

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn value(number: u64) -> Vec<u8> {
    number.to_be_bytes().repeat(20)
}

/// Makes the kernel answer `action` if this thread, or a thread that it starts from now on, asks for a
/// ring. False if the kernel has no filters.
fn filter(action: u32) -> bool {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let is_setup = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let mut filter = [
        // The call's number is the first word of what a filter sees.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter { jf: 1, ..statement(is_setup, libc::SYS_io_uring_setup as u32) },
        statement(libc::BPF_RET | libc::BPF_K, action),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let (yes, no): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: numbers only.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, no, no, no) }, 0);
    let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
    // SAFETY: the kernel copies the program, which outlives the call.
    unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, no, no) == 0 }
}

/// The error of a thread that asks for a ring; `None` if it does not survive that.
fn answer() -> Option<i32> {
    let (said, heard) = mpsc::channel();
    let (answered, answers) = mpsc::channel();
    std::thread::spawn(move || {
        // SAFETY: numbers only.
        said.send(unsafe { libc::gettid() }).unwrap();
        // SAFETY: the kernel refuses a null pointer.
        unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, std::ptr::null::<u8>()) };
        answered.send(std::io::Error::last_os_error().raw_os_error().unwrap()).unwrap();
    });
    let thread = PathBuf::from(format!("/proc/self/task/{}", heard.recv().unwrap()));
    while thread.exists() {
        std::thread::yield_now();
    }
    answers.try_recv().ok()
}

fn read_under_a_filter(path: &Path, action: u32, expected: Option<i32>) {
    let open = || {
        let layout = ChunkOptions::new().chunk_bytes(64 << 10).log_bytes(64 << 10).munks(false);
        let options = Options::new().default_keyspace(KeyspaceOptions::new().layout(layout));
        options.io_uring(true).open(path).unwrap()
    };
    let db = open();
    (0..PAIRS).for_each(|number| db.put(key(number), value(number)).unwrap());
    db.compact_range(..).unwrap();
    db.close().unwrap();
    if !filter(action) {
        return println!("skipped: the kernel has no filters");
    }
    assert_eq!(answer(), expected);
    let db = open();
    let wanted: Vec<u64> = (0..PAIRS + 100).step_by(30).collect();
    for from in [0, 15] {
        let found = db.get_many(wanted.iter().map(|number| key(number + from)));
        for (number, found) in wanted.iter().map(|number| number + from).zip(found) {
            assert_eq!(found.unwrap().map(Vec::from), (number < PAIRS).then(|| value(number)));
        }
    }
    let stats = db.stats();
    assert_eq!(stats.reads_by_io_uring, 0);
    assert!(stats.reads_by_hints > 0, "nothing was read together");
    db.close().unwrap();
    println!("read by hints: {}", stats.reads_by_hints);
}

/// Runs the test of this name again, in a process of its own: a filter stays for good.
fn in_a_child(test: &str, action: u32, expected: Option<i32>) {
    if let Some(dir) = std::env::var_os(UNDER_A_FILTER) {
        return read_under_a_filter(&Path::new(&dir).join("store"), action, expected);
    }
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture"]).env(UNDER_A_FILTER, dir.path()).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("read by hints: ") || said.contains("skipped: "), "{output:?}");
    println!("{said}");
}

#[test]
fn a_store_under_a_filter_that_forbids_rings_reads_by_hints() {
    let action = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    in_a_child("a_store_under_a_filter_that_forbids_rings_reads_by_hints", action, Some(libc::EPERM));
}

#[test]
fn a_store_under_a_filter_that_knows_no_rings_reads_by_hints() {
    let action = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    in_a_child("a_store_under_a_filter_that_knows_no_rings_reads_by_hints", action, Some(libc::ENOSYS));
}

#[test]
fn a_store_under_a_filter_that_ends_the_asking_thread_reads_by_hints() {
    let action = libc::SECCOMP_RET_KILL_THREAD;
    in_a_child("a_store_under_a_filter_that_ends_the_asking_thread_reads_by_hints", action, None);
}

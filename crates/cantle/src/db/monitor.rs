//! A socket by which other programs of the same user look at an open store: `cantle top`, `stats`, `inspect`, `backup`.
//!
//! A client connects to `MONITOR` in the store's directory, sends one line of JSON and gets one line of JSON:
//!
//! ```text
//!   {"request":"stats"}                               {"answer":{"epoch":3,…}}
//!   {"request":"regions","keyspace":"default"}        {"answer":[{"start":[…],"level":0,…},…]}
//!   {"request":"metadata","keyspace":"default"}       {"answer":[…bytes…]}
//!   {"request":"backup","directory":"/backups/1"}     {"answer":null}
//!                                                     {"error":"there is no keyspace \"x\""}
//! ```
//!
//! Invariants: the socket appears under its name with mode 0600, and takes no other file's name; a peer of another user (but root) gets
//! no answer; a request has at most [`REQUEST_BYTES_MAX`] bytes, and a peer that is silent for [`TIMEOUT`] is dropped; at most
//! [`CLIENTS_MAX`] are served at once. The threads hold the store weakly, so they never keep it open. Closing waits for a backup that
//! a client asked for, stops the listener and removes the name; a name that a killed process left is removed by the next opening.

use super::foreign::{NEW_SOCKET_FILE, SOCKET_FILE};
use super::store::Store;
use crate::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use crate::sync::{Arc, thread};
use crate::types::error::{Attempt, Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::net::sockopt::socket_peercred;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::Duration;

/// The longest request in bytes: two paths of the greatest length.
const REQUEST_BYTES_MAX: u64 = 8 << 10;
/// A peer that sends no request, or reads no answer, for this long is dropped.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The pause after a client could not be accepted: 100 ms.
const ACCEPT_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Clients that are served at once; more are turned away.
const CLIENTS_MAX: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(tag = "request", rename_all = "lowercase")]
enum Request {
    Stats,
    Regions { keyspace: String },
    Metadata { keyspace: String },
    Backup { directory: PathBuf },
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Response<T> {
    Answer(T),
    Error(String),
}

/// The listener of an open store. Dropping it stops the listener and removes the socket.
pub(super) struct Monitor {
    directory: OwnedFd,
    /// Closed to wake the listener.
    wake: Option<UnixStream>,
    thread: Option<thread::JoinHandle<()>>,
    process: u32,
}

impl Monitor {
    /// Listens in directory `path`, where the store is.
    pub(super) fn start(store: &Arc<Store>, path: &Path) -> Result<Self> {
        let failed = |attempt| move |error: std::io::Error| Error::io(attempt, path.join(SOCKET_FILE), error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty());
        let directory = directory.map_err(|error| failed(Attempt::OpenDirectory)(error.into()))?;
        let listener = listen(&directory).map_err(failed(Attempt::Create))?;
        let (wake, woken) = UnixStream::pair().map_err(failed(Attempt::Create))?;
        let weak = Arc::downgrade(store);
        let thread = thread::spawn("cantle-monitor", move || serve(&listener, &woken, &weak));
        let thread = thread.map_err(failed(Attempt::StartThreads))?;
        Ok(Self { directory, wake: Some(wake), thread: Some(thread), process: std::process::id() })
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // The parent's: its threads are not here.
            std::mem::forget(self.thread.take());
            return;
        }
        let _ = rustix::fs::unlinkat(&self.directory, SOCKET_FILE, AtFlags::empty());
        if let Some(wake) = self.wake.take() {
            // A forked child has a copy of it, so that dropping it would wake nobody.
            let _ = wake.shutdown(std::net::Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// By the descriptor of the directory: the path of a socket has at most 107 bytes.
fn listen(directory: &OwnedFd) -> std::io::Result<UnixListener> {
    let listener = UnixListener::bind(format!("/proc/self/fd/{}/{NEW_SOCKET_FILE}", directory.as_raw_fd()))?;
    listener.set_nonblocking(true)?;
    // A file of the user's that has the name of the socket stays.
    let named = rustix::fs::chmodat(directory, NEW_SOCKET_FILE, Mode::RUSR | Mode::WUSR, AtFlags::empty())
        .and_then(|()| {
            let flags = RenameFlags::NOREPLACE;
            rustix::fs::renameat_with(directory, NEW_SOCKET_FILE, directory, SOCKET_FILE, flags)
        });
    if let Err(error) = named {
        let _ = rustix::fs::unlinkat(directory, NEW_SOCKET_FILE, AtFlags::empty());
        return Err(error.into());
    }
    Ok(listener)
}

fn serve(listener: &UnixListener, woken: &UnixStream, store: &Weak<Store>) {
    let clients = Arc::new(AtomicUsize::new(0));
    loop {
        let mut wanted = [
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(woken.as_fd(), PollFlags::IN),
        ];
        match poll(&mut wanted, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                tracing::warn!(%error, "the monitor of a store ends");
                return;
            }
        }
        if !wanted[1].revents().is_empty() {
            return;
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, say: the client stays in the queue, and `poll` would return at once.
                tracing::debug!(%error, "cannot accept a client of the monitor");
                let mut ended = [PollFd::from_borrowed_fd(woken.as_fd(), PollFlags::IN)];
                let _ = poll(&mut ended, Some(&ACCEPT_PAUSE));
                continue;
            }
        };
        if clients.fetch_add(1, SeqCst) >= CLIENTS_MAX {
            clients.fetch_sub(1, SeqCst);
            continue;
        }
        let (store, served) = (store.clone(), Served(clients.clone()));
        let started = thread::spawn("cantle-client", move || {
            if let Err(error) = serve_client(&stream, &store) {
                tracing::debug!(%error, "a client of the monitor got no answer");
            }
            drop(served);
        });
        if let Err(error) = started {
            tracing::debug!(%error, "cannot start a thread for a client of the monitor");
        }
    }
}

/// One of the clients that are served. Counts it off when it goes, whatever ended its thread.
struct Served(Arc<AtomicUsize>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

fn serve_client(stream: &UnixStream, store: &Weak<Store>) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let peer = socket_peercred(stream)?.uid;
    if peer != rustix::process::geteuid() && !peer.is_root() {
        return Err(std::io::Error::other(format!("user {} may not ask", peer.as_raw())));
    }
    let mut line = String::new();
    BufReader::new(stream.take(REQUEST_BYTES_MAX)).read_line(&mut line)?;
    let mut answer = match serde_json::from_str(&line) {
        Ok(request) => answer(request, store),
        Err(error) => encode::<()>(Err(format!("the request is no request: {error}"))),
    };
    answer.push('\n');
    let mut stream = stream;
    stream.write_all(answer.as_bytes())
}

fn answer(request: Request, store: &Weak<Store>) -> String {
    let Some(store) = store.upgrade() else {
        return encode::<()>(Err(Error::Closed.to_string()));
    };
    let keyspace = |name: &str| {
        let found = store.keyspaces.read().get(name).cloned();
        found.ok_or_else(|| Error::NoKeyspace(name.to_owned()).to_string())
    };
    if let Err(error) = store.check_open() {
        return encode::<()>(Err(error.to_string()));
    }
    match request {
        Request::Stats => encode(Ok(store.stats())),
        Request::Regions { keyspace: name } => encode(keyspace(&name).map(|found| found.layout.regions())),
        Request::Metadata { keyspace: name } => {
            encode(keyspace(&name).map(|found| found.metadata.lock().clone()))
        }
        Request::Backup { directory } if directory.is_relative() => {
            encode::<()>(Err(format!("{} is relative: give an absolute path", directory.display())))
        }
        Request::Backup { directory } => encode(store.backup(&directory).map_err(|error| error.to_string())),
    }
}

fn encode<T: Serialize>(answer: std::result::Result<T, String>) -> String {
    let response = answer.map_or_else(Response::Error, Response::Answer);
    serde_json::to_string(&response)
        .unwrap_or_else(|error| format!("{{\"error\":\"the answer cannot be written: {error}\"}}"))
}

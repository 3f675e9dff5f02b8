//! Ends the process when a case hangs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// Thousands of times the duration of a case on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

type Running = Mutex<HashMap<ThreadId, (Instant, String)>>;

/// Knows the case of every thread. A thread that hangs cannot be ended, so the process is ended,
/// after a message.
pub struct Watchdog(Arc<Running>);

impl Watchdog {
    pub fn start(door: &'static str) -> Self {
        let running: Arc<Running> = Arc::default();
        let watched: Weak<Running> = Arc::downgrade(&running);
        thread::spawn(move || {
            while let Some(running) = watched.upgrade() {
                for (since, case) in running.lock().unwrap().values() {
                    if since.elapsed() > LIMIT {
                        eprintln!("{door}, case {case}: hangs for more than {} s", LIMIT.as_secs());
                        std::process::exit(101);
                    }
                }
                drop(running);
                thread::sleep(Duration::from_millis(500));
            }
        });
        Self(running)
    }

    /// Runs a case.
    pub fn watch<T>(&self, case: &str, run: impl FnOnce() -> T) -> T {
        let id = thread::current().id();
        self.0.lock().unwrap().insert(id, (Instant::now(), case.to_owned()));
        let done = run();
        self.0.lock().unwrap().remove(&id);
        done
    }
}

//! From async code. The store's calls are short, but they may read a disk or wait for a sync, so an executor's
//! threads should not make them: they are handed to a few threads that may block, and awaited.
//!
//! With tokio, `Blocking::run` is `tokio::task::spawn_blocking`, and nothing else changes.
//!
//!     cargo run -p cantle --example async_tasks
#![expect(clippy::disallowed_methods, reason = "an application starts its threads as it likes")]

use cantle::{Db, Range, Value};
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that may block.
struct Blocking {
    jobs: Sender<Job>,
}

impl Blocking {
    fn new(threads: usize) -> Self {
        let (jobs, queue) = channel::<Job>();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads {
            let queue = queue.clone();
            thread::spawn(move || {
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    job();
                }
            });
        }
        Self { jobs }
    }

    /// Starts `job` at once; the future is ready when it is done.
    fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
        let state = Arc::new(Mutex::new(State { outcome: None, waker: None }));
        let finish = state.clone();
        let job = Box::new(move || {
            let outcome = job();
            let mut state = finish.lock().unwrap_or_else(PoisonError::into_inner);
            state.outcome = Some(outcome);
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        });
        assert!(self.jobs.send(job).is_ok(), "the threads run as long as there is somebody to send");
        Pending { state }
    }
}

struct State<T> {
    outcome: Option<T>,
    waker: Option<Waker>,
}

/// The future result of a job.
struct Pending<T> {
    state: Arc<Mutex<State<T>>>,
}

impl<T> Future for Pending<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A handler of requests: handles are cheap to clone, and `Send + Sync`.
async fn register(blocking: &Blocking, db: &Db, user: u32) -> cantle::Result<Option<Value>> {
    let writer = db.clone();
    blocking.run(move || writer.put(format!("user/{user:04}"), user.to_string())).await?;
    let reader = db.clone();
    blocking.run(move || reader.get(format!("user/{user:04}"))).await
}

/// Ranges are `Send + 'static`: a long scan is read in pages, and its snapshot wanders from thread to thread.
async fn count(blocking: &Blocking, mut range: Range) -> cantle::Result<usize> {
    const PAGE: usize = 64;
    let mut count = 0;
    loop {
        let page;
        (range, page) = blocking
            .run(move || {
                let page: cantle::Result<Vec<_>> = range.by_ref().take(PAGE).collect();
                (range, page)
            })
            .await;
        let page = page?;
        count += page.len();
        if page.len() < PAGE {
            return Ok(count);
        }
    }
}

/// Registers users and counts them, from async code.
pub fn main() -> cantle::Result<()> {
    let dir = tempfile::tempdir().map_err(|error| cantle::Error::InvalidArgument(error.to_string()))?;
    let db = Db::open(dir.path().join("users"))?;
    let blocking = Blocking::new(2);
    futures_executor::block_on(async {
        for user in 0..200 {
            let stored = register(&blocking, &db, user).await?;
            assert_eq!(stored.as_deref(), Some(user.to_string().as_bytes()));
        }
        // Started together, awaited together.
        let puts: Vec<_> = (200..400)
            .map(|user| {
                let db = db.clone();
                blocking.run(move || db.put(format!("user/{user:04}"), user.to_string()))
            })
            .collect();
        for put in puts {
            put.await?;
        }
        assert_eq!(count(&blocking, db.prefix("user/")).await?, 400);
        // Calls that wait for a sync go to the threads as well.
        let (syncing, closing) = (db.clone(), db.clone());
        blocking.run(move || syncing.sync()).await?;
        blocking.run(move || closing.close()).await
    })
}

//! The pool with real threads; `tests/shuttle_pool.rs` has random interleavings of few jobs.

use super::lanes::Class;
use super::pool::{Jobs, Pool, SPARES_MAX, Ticker};
use crate::sync::{Arc, Mutex};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

#[test]
fn a_job_counts_until_it_is_done() {
    let pool = Pool::new(1).unwrap();
    let ((begin, begun), (end, ended)) = (channel(), channel::<()>());
    for _ in 0..2 {
        let begin = begin.clone();
        pool.submit(Class::Deep, move || begin.send(()).unwrap());
    }
    pool.submit(Class::Deep, move || ended.recv().unwrap());
    pool.submit(Class::Deep, || {});
    (0..2).for_each(|_| begun.recv().unwrap());
    while pool.queued() > 1 {
        std::thread::yield_now();
    }
    assert_eq!((pool.queued(), pool.running()), (1, 1));
    end.send(()).unwrap();
    while pool.queued() + pool.running() > 0 {
        std::thread::yield_now();
    }
}

/// Two owners of one pool. Jobs and ticks of the first one do not end before the returned end is
/// dropped.
fn held_up(pool: &Pool) -> (Pool, Sender<()>) {
    struct Stuck(Mutex<Receiver<()>>);
    impl Ticker for Stuck {
        fn tick(&self) {
            let _ = self.0.lock().recv();
        }
    }
    let (end, ended) = channel::<()>();
    let stuck: Arc<dyn Ticker> = Arc::new(Stuck(Mutex::new(ended)));
    let (owner, other) = (pool.for_owner(), pool.for_owner());
    owner.register(Arc::downgrade(&stuck));
    // More jobs than there will ever be threads.
    for _ in 0..3 * SPARES_MAX {
        for class in Class::ALL {
            let stuck = stuck.clone();
            owner.submit(class, move || stuck.tick());
        }
    }
    (other, end)
}

#[test]
fn who_is_held_up_by_his_disk_holds_up_nobody_else() {
    struct Counted(Sender<&'static str>);
    impl Ticker for Counted {
        fn tick(&self) {
            let _ = self.0.send("tick");
        }
    }
    let pool = Pool::new(2).unwrap();
    let (other, end) = held_up(&pool);
    let (done, waiting) = channel();
    for round in 0..3 {
        for class in Class::ALL {
            let done = done.clone();
            other.submit(class, move || done.send("job").unwrap());
            assert_eq!(
                waiting.recv_timeout(Duration::from_secs(60)),
                Ok("job"),
                "{class:?} in round {round}"
            );
        }
    }
    let counted: Arc<dyn Ticker> = Arc::new(Counted(done));
    other.register(Arc::downgrade(&counted));
    (0..3).for_each(|_| assert_eq!(waiting.recv_timeout(Duration::from_secs(60)), Ok("tick")));
    // The jobs of the first are its own: no spare thread was lost to them.
    assert!(pool.spares() <= 3, "one of each crew");
    drop(end);
    while pool.queued() + pool.running() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_job_that_panics_takes_no_thread_with_it() {
    let pool = Pool::new(1).unwrap();
    let (done, waiting) = channel();
    for class in Class::ALL {
        let done = done.clone();
        for _ in 0..3 {
            pool.submit(class, || panic!("as the test wants it"));
        }
        pool.submit(class, move || done.send(()).unwrap());
    }
    Class::ALL.iter().for_each(|_| waiting.recv_timeout(Duration::from_secs(60)).unwrap());
}

/// Lets the only worker of a pool begin a job that ends when the result is dropped.
fn at_a_long_job(pool: &Pool) -> Sender<()> {
    let ((begin, begun), (end, ended)) = (channel(), channel::<()>());
    pool.submit(Class::Deep, move || {
        begin.send(()).unwrap();
        let _ = ended.recv();
    });
    begun.recv().unwrap();
    end
}

fn wait_until_idle(pool: &Pool) {
    while pool.queued() + pool.running() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn a_seal_and_a_checkpoint_do_not_wait_for_a_long_job() {
    let pool = Pool::new(1).unwrap();
    let end = at_a_long_job(&pool);
    let (done, waiting) = channel();
    // One after the other on the thread of their class.
    for class in [Class::Seal, Class::Checkpoint, Class::Seal, Class::Seal] {
        let done = done.clone();
        pool.submit(class, move || done.send(class).unwrap());
        assert_eq!(waiting.recv_timeout(Duration::from_secs(60)), Ok(class));
    }
    drop(end);
    wait_until_idle(&pool);
}

#[test]
fn a_worker_takes_the_most_urgent_job_and_tells_of_all() {
    let pool = Pool::new(1).unwrap();
    let end = at_a_long_job(&pool);
    let (done, waiting) = channel();
    for class in [Class::Asked, Class::Deep, Class::Level0, Class::Deep, Class::Level0] {
        let done = done.clone();
        pool.submit(class, move || done.send(class).unwrap());
    }
    let jobs = |waiting, running| Jobs { waiting, running };
    assert_eq!(pool.jobs(), [jobs(0, 0), jobs(0, 0), jobs(2, 0), jobs(2, 1), jobs(1, 0)]);
    drop(end);
    let order = [Class::Level0, Class::Level0, Class::Deep, Class::Deep, Class::Asked];
    assert_eq!(order.map(|_| waiting.recv_timeout(Duration::from_secs(60)).unwrap()), order);
    wait_until_idle(&pool);
}

//! Runs a model with one of shuttle's schedulers, in the given number of schedules, or
//! `CANTLE_TEST_FACTOR` times as many. Each run prints its number of schedules; for a model that
//! fails, the number until the failure.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Each step is drawn uniformly from the threads that can run.
pub fn random(schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    run(schedules, model, shuttle::check_random);
}

/// Schedules are drawn uniformly, as far as the lengths of threads are known from earlier
/// schedules.
pub fn evenly(schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    run(schedules, model, shuttle::check_urw);
}

/// Threads run by priority, with fewer than `depth` additional switches, at random places (PCT). An
/// error that needs this many ordered switches is found with a probability that falls more slowly
/// with the length of the threads.
pub fn few_switches(depth: usize, schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    run(schedules, model, |model, schedules| shuttle::check_pct(model, schedules, depth));
}

struct Count(Arc<AtomicUsize>);

impl Drop for Count {
    fn drop(&mut self) {
        println!("{} schedules", self.0.load(Relaxed));
    }
}

type Counted = Box<dyn Fn() + Send + Sync>;

fn run(schedules: usize, model: impl Fn() + Send + Sync + 'static, check: impl Fn(Counted, usize)) {
    let factor = std::env::var("CANTLE_TEST_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1);
    let count = Count(Arc::default());
    let counter = count.0.clone();
    let counted = move || {
        counter.fetch_add(1, Relaxed);
        model();
    };
    check(Box::new(counted), schedules * factor);
}

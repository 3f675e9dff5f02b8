//! How a model is run: in so many schedules, or `CANTLE_TEST_FACTOR` times as many, by one of shuttle's schedulers. Each
//! prints how many it ran, and of a model that fails how many it took.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Each step is drawn evenly from the threads that can go on.
pub fn random(schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    run(schedules, model, shuttle::check_random);
}

/// Schedules are drawn evenly, as far as the lengths of threads are known from those before.
pub fn evenly(schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    run(schedules, model, shuttle::check_urw);
}

/// Threads run by priority, with less than `depth` switches beyond that, at random places (PCT): an error that needs so
/// many to come about in order is found with a probability that does not fall with the length of the threads as fast.
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

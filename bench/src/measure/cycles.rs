//! Processor cycles over all threads of the process (Tucana's measure), if the machine has such a
//! counter.

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// Cycles since it was made, of the thread that made it and of all threads that were started
/// afterwards.
pub struct Cycles(Option<Counter>);

impl Cycles {
    /// Must be called before the store starts its threads. The text is the reason if there is no
    /// counter.
    pub fn start() -> (Self, Option<String>) {
        let counter =
            Builder::new(Hardware::CPU_CYCLES).observe_self().inherit(true).include_kernel().build();
        let counter = counter.and_then(|mut counter| counter.enable().map(|()| counter));
        match counter {
            Ok(counter) => (Self(Some(counter)), None),
            Err(error) => (Self(None), Some(format!("cycles are not counted on this machine: {error}"))),
        }
    }

    /// The number of cycles so far.
    pub fn now(&mut self) -> Option<u64> {
        self.0.as_mut()?.read().ok()
    }
}

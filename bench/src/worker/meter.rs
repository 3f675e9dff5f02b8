//! Counters of one step: of the process, the device and the store.

use crate::engine::{Engine, Figures};
use crate::failure::Result;
use crate::measure::cycles::Cycles;
use crate::measure::process::{self, Counters, DeviceCounters};
use crate::record::Measured;
use std::path::Path;
use std::time::Instant;

/// Counters at the start of a step.
pub struct Meter {
    figures: Figures,
    device: Option<DeviceCounters>,
    counters: Counters,
    cycles: Option<u64>,
}

impl Meter {
    /// Begins a step.
    pub fn start(engine: &dyn Engine, dir: &Path, cycles: &mut Cycles) -> Self {
        process::reset_peak_resident();
        let figures = engine.figures();
        Self { figures, device: DeviceCounters::of(dir), counters: Counters::now(), cycles: cycles.now() }
    }

    /// Syncs the store, and returns the counts since the start. The sync is included in all but the
    /// cycles.
    pub fn stop(self, engine: &dyn Engine, dir: &Path, cycles: &mut Cycles) -> Result<Measured> {
        let cycles = cycles.now().zip(self.cycles).map(|(now, before)| now - before);
        let sync_started = Instant::now();
        engine.sync()?;
        let sync_s = sync_started.elapsed().as_secs_f64();
        let counters = Counters::now().since(self.counters);
        let device = DeviceCounters::of(dir).zip(self.device).map(|(now, before)| now.since(before));
        let mut figures = engine.figures();
        for (name, value) in &mut figures {
            if !name.contains("longest") {
                *value -= self.figures.get(name).copied().unwrap_or(0.0);
            }
        }
        let peak_resident_bytes = process::peak_resident_bytes();
        Ok(Measured { counters, device, cycles, sync_s, figures, peak_resident_bytes, ..Measured::default() })
    }
}

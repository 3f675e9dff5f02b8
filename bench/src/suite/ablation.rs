//! The gain of each of Cantle's extensions: the same work with one extension after the other
//! switched off.

use super::View;
use super::builder::{Builder, panel, point_of, series};
use super::evendb::THETA;
use super::measure::Measure;
use crate::engine::Spec;
use cantle_workloads::generator::Distribution::{ZipfComposite, ZipfSimple};
use cantle_workloads::workload::Workload::{A, C, E100, P};

/// The paper's data set that is larger than memory.
const LARGE: u64 = 64;

/// Adds the experiment.
pub fn add(builder: &mut Builder) {
    let size = builder.size(LARGE);
    let plain = || Spec::plain("cantle");
    let variants = [
        ("all on", plain()),
        ("no write buffer", plain().with("write_buffer", "off")),
        ("last appends not kept", plain().with("recent_appends", "off")),
        ("logs of 2 MB, not adapted", plain().with("log_bytes", "2000000")),
        ("no row cache", plain().with("row_cache", "off")),
        ("no munks", plain().with("munks", "off")),
        ("as published", Spec::plain("cantle-published")),
    ];
    let engines: Vec<Spec> = variants.iter().map(|(_, engine)| engine.clone()).collect();
    let mut panels = Vec::new();
    for workload in [P, A, C, E100] {
        for distribution in [ZipfComposite, ZipfSimple] {
            let mut cell = builder.ycsb_cell(workload, distribution, THETA, size, builder.threads());
            cell.id += "/ablation";
            cell.engines = Some(engines.clone());
            let cell = builder.add(cell);
            let lines = variants
                .iter()
                .map(|(name, engine)| series(*name, vec![point_of("", cell.clone(), "run", engine.clone())]));
            let columns = vec![
                Measure::Throughput,
                Measure::WriteAmplification,
                Measure::ReadAmplification,
                Measure::ProcessorPerOperation,
                Measure::Space,
            ];
            let title = format!("{}, {}, {}", workload.name(), distribution.name(), builder.shown(size));
            panels.push(panel(title, "", View::Table(columns), lines.collect()));
        }
    }
    builder.figure(
        "ablation",
        "Ablation: our extensions switched off in turn",
        "EvenDB's worst case is mixed reads and writes without locality, where gets search logs linearly (§5.3.2).",
        "The last row has the paper's settings and rules, the linear search of logs among them, and none of the extensions.",
        panels,
    );
}

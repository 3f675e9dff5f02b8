//! YoDB's Tables 2 and 3, with its skew of 0.8.

use super::builder::Builder;
use super::evendb::by_size;
use super::measure::Measure;
use cantle_workloads::generator::Distribution::{ZipfComposite, ZipfSimple};
use cantle_workloads::workload::Workload::{C, P};

/// The skew of its experiments (§5.1).
const THETA: f64 = 0.8;

const REMAINDER: &str =
    "In YoDB the remainder of composite keys is Zipf-distributed too; here it is uniform, as in EvenDB.";

/// Adds both tables.
pub fn add(builder: &mut Builder) {
    let panels = [ZipfComposite, ZipfSimple].map(|distribution| {
        by_size(builder, Measure::WriteAmplification, distribution.name(), P, distribution, THETA)
    });
    builder.figure(
        "yodb-table-2",
        "YoDB, Table 2: write amplification of puts",
        "From 4 to 64 GB, Zipf-composite: YoDB 1.42, 1.38, 1.27, 1.30, 1.29; RocksDB 1.93, 2.15, 2.29, 2.54, 2.92. \
         Zipf-simple: YoDB 1.41, 1.37, 1.15, 1.13, 1.31; RocksDB 1.94, 2.20, 2.69, 3.03, 2.77.",
        REMAINDER,
        panels.into(),
    );
    let panels = [Measure::ReadAmplification, Measure::ReadCalls]
        .map(|measure| by_size(builder, measure, ZipfComposite.name(), C, ZipfComposite, THETA));
    builder.figure(
        "yodb-table-3",
        "YoDB, Table 3: read amplification of gets",
        "From 4 to 64 GB, bytes: YoDB 0.0, 0.0, 0.11, 0.80, 1.07; RocksDB 0.05, 0.11, 0.20, 0.47, 0.95. System calls per \
         get: YoDB 0.0, 0.0, 0.10, 0.24, 0.41; RocksDB 3.84, 4.01, 4.14, 4.28, 4.37.",
        REMAINDER,
        panels.into(),
    );
}

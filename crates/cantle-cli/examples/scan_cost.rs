//! The cost of scans of a sorted store: scans per second, and bytes read by each, by its length.
//!
//!     cargo run --release -p cantle-cli --example scan_cost DIRECTORY
//!
//! Loads 400,000 records of 814 bytes into the directory and sorts them into tables, unless they
//! are there. Linux only: the calls that read are those that the kernel counts. To see what the
//! device costs, run it in a control group with less memory than the data.

use cantle::{Options, Result};
use std::path::Path;
use std::time::Instant;

const RECORDS: u64 = 400_000;
const ROWS: [u64; 5] = [10, 30, 100, 300, 1000];
/// Records that all scans of one length visit together, about.
const VISITED: u64 = 400_000;

/// Calls of this process that read, and what they read in bytes.
fn reads() -> Result<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/self/io")
        .map_err(|error| cantle::Error::InvalidArgument(format!("/proc/self/io: {error}")))?;
    let field = |name| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Ok(["syscr:", "rchar:"].map(|name| field(name).unwrap_or(0)))
}

fn noise(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *seed >> 20
}

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1).expect("the directory of the store");
    let is_loaded = Path::new(&dir).exists();
    let db = Options::new().memory_budget(64 << 20).open(&dir)?;
    let seed = &mut 1;
    if !is_loaded {
        for number in 0..RECORDS {
            let value: Vec<u8> = (0..800).map(|_| noise(seed) as u8).collect();
            db.put(format!("{number:014}"), value)?;
        }
        db.compact_range(..)?;
    }
    println!("rows  scans/s  reads of a scan  bytes of a scan");
    for rows in ROWS {
        let scans = VISITED / (rows + 40);
        let scan_all = |seed: &mut u64| -> Result<()> {
            for _ in 0..scans {
                let mut cursor = db.cursor(..);
                let mut is_there = cursor.seek(format!("{:014}", noise(seed) % RECORDS))?;
                for _ in 1..rows {
                    is_there = is_there && cursor.next()?;
                }
            }
            Ok(())
        };
        // The lengths of the latest scans decide how the next ones begin.
        scan_all(seed)?;
        let (begun, before) = (Instant::now(), reads()?);
        scan_all(seed)?;
        let (seconds, after) = (begun.elapsed().as_secs_f64(), reads()?);
        let each = [0, 1].map(|which| (after[which] - before[which]) as f64 / scans as f64);
        println!("{rows:4}  {:7.0}  {:15.2}  {:15.0}", scans as f64 / seconds, each[0], each[1]);
    }
    db.close()
}

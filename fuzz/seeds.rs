//! Writes the seeds of every target to `corpus/<target>`: real files, of stores that are made on
//! the spot.

use cantle_faults::doors::fuzz::{TARGETS, layout_of_fuzzer};
use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    for target in TARGETS {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
        fs::create_dir_all(&dir)?;
        for (number, seed) in (target.seeds)(layout_of_fuzzer()).iter().enumerate() {
            fs::write(dir.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}

//! Inserts in the order of keys into a store that is opened again: are they logged once, and never
//! sorted?
//!
//! `cargo run --release -p cantle-cli --example insert_again -- STORE 500000 2000000 512` has two
//! threads insert 500,000 records of 814 bytes into a new store at STORE, opens it again under a
//! budget of 512 MiB, goes on with 2,000,000 more, and prints after each which bytes lie in logs
//! and tables. The store is deleted at the end.

use cantle::{Db, Options};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [store, first, more, budget_mib] = &args[..] else {
        return Err("expected: STORE, records at first, records more, MiB of memory".into());
    };
    let (first, more): (u64, u64) = (first.parse()?, more.parse()?);
    let options = Options::new().memory_budget(budget_mib.parse::<u64>()? << 20);
    if std::path::Path::new(store).exists() {
        return Err(format!("{store} is there already: give the path of a new store").into());
    }
    for (what, from, to) in [("first", 0, first), ("opened again", first, first + more)] {
        let db = options.clone().open(store)?;
        let begun = Instant::now();
        insert(&db, from, to)?;
        let rate = (to - from) as f64 / begun.elapsed().as_secs_f64() / 1000.0;
        let stats = &db.stats().keyspaces[0];
        println!(
            "{what}: {rate:.0} thousand a second; MB in logs {}, in tables {}; munks {} of {} chunks, ends split off {}",
            stats.log_bytes / 1_000_000,
            stats.table_bytes / 1_000_000,
            stats.chunk().map_or(0, |chunk| chunk.munks),
            stats.regions,
            stats.chunk().map_or(0, |chunk| chunk.end_splits)
        );
        db.close()?;
    }
    std::fs::remove_dir_all(store)?;
    Ok(())
}

fn insert(db: &Db, from: u64, to: u64) -> cantle::Result<()> {
    let next = AtomicU64::new(from);
    let insert = || {
        let mut value = [1; 800];
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= to {
                return Ok(());
            }
            value[..8].copy_from_slice(&number.to_be_bytes());
            db.put(format!("{number:014}"), &value[..])?;
        }
    };
    std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(insert));
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

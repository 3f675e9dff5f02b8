//! Counters: atomic read-modify-write from many threads, and durability chosen write by write.
//!
//!     cargo run -p cantle --example counters

use cantle::{Db, Durability, Options, Value, WriteBatch, WriteOptions};
use std::thread;

const THREADS: u64 = 4;
const VISITS: u64 = 500;

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map(u64::from_be_bytes).unwrap_or_default()
}

/// Adds to a counter. The closure gets the present value and says what the new one is; it may run again if
/// somebody else was faster, so it must do nothing but compute.
fn add(db: &Db, key: &str, by: u64) -> cantle::Result<u64> {
    let new: Option<Value> =
        db.update(key, |old| Some((old.map_or(0, number) + by).to_be_bytes().to_vec()))?;
    Ok(new.map_or(0, |value| number(&value)))
}

/// Counts visits from several threads.
pub fn main() -> cantle::Result<()> {
    let dir = tempfile::tempdir().map_err(|error| cantle::Error::InvalidArgument(error.to_string()))?;
    let path = dir.path().join("counters");

    // The default, spelt out: what is acknowledged survives the end of the process, not a loss of power.
    let db = Options::new().durability(Durability::Process).open(&path)?;
    thread::scope(|scope| {
        for visitor in 0..THREADS {
            let db = db.clone();
            scope.spawn(move || -> cantle::Result<()> {
                for visit in 0..VISITS {
                    add(&db, "visits", 1)?;
                    add(&db, ["page/a", "page/b"][(visitor + visit) as usize % 2], 1)?;
                }
                Ok(())
            });
        }
    });
    assert_eq!(db.get_with("visits", number)?, Some(THREADS * VISITS));
    let pages: u64 =
        db.prefix("page/").map(|pair| pair.map(|(_, value)| number(&value))).sum::<cantle::Result<_>>()?;
    assert_eq!(pages, THREADS * VISITS);

    // None deletes.
    assert_eq!(db.update("page/a", |_| None)?, None);
    assert!(!db.contains_key("page/a")?);

    // Some writes matter more: this one survives a loss of power once it returns, and with it all before it.
    let mut batch = WriteBatch::new();
    batch.put("invoice/1", "paid");
    db.write_with(batch, WriteOptions::new().durability(Durability::Sync))?;

    // A thousand cheap writes and one `sync` come to the same.
    for n in 0..1000 {
        db.put(format!("log/{n:04}"), "…")?;
    }
    db.sync()?;
    db.close()?;

    let db = Options::new().create_if_missing(false).read_only(true).open(&path)?;
    assert_eq!(db.get("invoice/1")?.as_deref(), Some(&b"paid"[..]));
    assert_eq!(db.prefix("log/").count(), 1000);
    db.close()
}

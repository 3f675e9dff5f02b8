//! Snapshots and long iterators beside writers: a report that takes its time reads one moment of a store that
//! goes on changing, and keeps nobody waiting.
//!
//!     cargo run -p cantle --example snapshots

use cantle::{Db, WriteBatch};
use std::thread;

const ACCOUNTS: u64 = 200;
const TRANSFERS: u64 = 2_000;

fn account(number: u64) -> String {
    format!("account/{number:05}")
}

fn amount(bytes: &[u8]) -> i64 {
    bytes.try_into().map(i64::from_be_bytes).unwrap_or_default()
}

/// The sum of all accounts in `pairs`.
fn total(pairs: impl Iterator<Item = cantle::Result<(cantle::Key, cantle::Value)>>) -> cantle::Result<i64> {
    pairs.map(|pair| pair.map(|(_, value)| amount(&value))).sum()
}

/// Moves money about while its sum is taken.
pub fn main() -> cantle::Result<()> {
    let dir = tempfile::tempdir().map_err(|error| cantle::Error::InvalidArgument(error.to_string()))?;
    let db = Db::open(dir.path().join("bank"))?;
    for number in 0..ACCOUNTS {
        db.put(account(number), 100i64.to_be_bytes())?;
    }

    // An iterator is a snapshot of its own. This one is taken now and read at the end.
    let mut slow = db.prefix("account/");
    let first = slow.next().transpose()?;
    assert_eq!(first.map(|(key, _)| key.to_vec()), Some(account(0).into_bytes()));

    thread::scope(|scope| -> cantle::Result<()> {
        // One thread moves money about: each transfer is a batch, seen whole or not at all.
        let writer = scope.spawn(|| -> cantle::Result<()> {
            for n in 0..TRANSFERS {
                let (from, to) = (account(n * 7 % ACCOUNTS), account((n * 11 + 1) % ACCOUNTS));
                if from == to {
                    continue;
                }
                let read = |key: &str| db.get_with(key, amount).map(Option::unwrap_or_default);
                let mut batch = WriteBatch::new();
                batch.put(&from, (read(&from)? - 1).to_be_bytes());
                batch.put(&to, (read(&to)? + 1).to_be_bytes());
                db.write(batch)?;
            }
            Ok(())
        });
        // Meanwhile every sum over a snapshot is the same: no transfer is ever half seen.
        while !writer.is_finished() {
            let snapshot = db.snapshot();
            assert_eq!(total(snapshot.prefix("account/"))?, 100 * ACCOUNTS as i64);
            // A snapshot gives the same answer as often as it is asked.
            let forward: Vec<_> = snapshot.range(..).collect::<cantle::Result<_>>()?;
            let mut backward: Vec<_> = snapshot.range(..).rev().collect::<cantle::Result<_>>()?;
            backward.reverse();
            assert!(forward == backward);
        }
        match writer.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;

    // The slow iterator still reads the moment when it was made: nobody had moved anything.
    for pair in slow {
        assert_eq!(amount(&pair?.1), 100);
    }
    db.close()
}

//! Transactions: what is written depends on what was read, over several keys, ranges and keyspaces, from many
//! threads.
//!
//!     cargo run -p cantle --example transaction

use cantle::{Db, Error};
use std::thread;

const ROOMS: u64 = 3;
const GUESTS: u64 = 8;
const NIGHTS: u64 = 10;

/// A room's nights lie together, in order.
fn night(room: u64, night: u64) -> String {
    format!("room{room}/{night:03}")
}

/// Books several nights in one room, and notes it with the guest; false if one of the nights is taken.
fn book(db: &Db, guest: &str, room: u64, from: u64, to: u64) -> cantle::Result<bool> {
    let bookings = db.keyspace("bookings")?;
    // Runs again if anybody has changed what it read. So it does nothing but read and write through `tx`.
    db.transact(|tx| {
        // The range must still be empty when the transaction commits: no two guests can both
        // find the nights free and take them.
        if tx.range(night(room, from)..night(room, to)).next().transpose()?.is_some() {
            return Ok(false);
        }
        for taken in from..to {
            tx.put(night(room, taken), guest)?;
        }
        tx.keyspace(&bookings).put(format!("{guest}/{}", night(room, from)), (to - from).to_be_bytes())?;
        Ok(true)
    })
}

/// Guests who all want the same rooms.
pub fn main() -> cantle::Result<()> {
    let dir = tempfile::tempdir().map_err(|error| Error::InvalidArgument(error.to_string()))?;
    let db = Db::open(dir.path().join("hotel"))?;
    let bookings = db.keyspace("bookings")?;

    thread::scope(|scope| {
        let guests: Vec<_> = (0..GUESTS)
            .map(|guest| {
                let db = &db;
                scope.spawn(move || -> cantle::Result<()> {
                    for n in 0..NIGHTS {
                        let from = (guest * 3 + n) % NIGHTS;
                        book(
                            db,
                            &format!("guest{guest}"),
                            n % ROOMS,
                            from,
                            (from + 1 + guest % 3).min(NIGHTS),
                        )?;
                    }
                    Ok(())
                })
            })
            .collect();
        guests.into_iter().try_for_each(|guest| match guest.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;

    // Every night that is taken is on exactly one guest's bill. Both keyspaces are read at one moment, and a
    // transaction that only reads never conflicts.
    let tx = db.transaction();
    let mut nights = 0;
    for pair in tx.keyspace(&bookings).range(..) {
        nights += pair?.1[..].try_into().map(u64::from_be_bytes).unwrap_or_default();
    }
    assert_eq!(nights, tx.prefix("room").count() as u64);
    tx.commit()?;

    // Without `transact` the conflict is the caller's to deal with.
    let (one, two) = (db.transaction(), db.transaction());
    assert!(!one.contains_key("key")? && !two.contains_key("key")?);
    one.put("key", "to the attic")?;
    two.put("key", "to the cellar")?;
    one.commit()?;
    match two.commit() {
        Err(Error::Conflict { keyspace, .. }) => assert_eq!(keyspace, "default"),
        other => return other,
    }
    println!("{nights} nights booked, {} conflicts", db.stats().transaction_conflicts);
    db.close()
}

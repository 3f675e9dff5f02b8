//! Composite keys and prefix scans: messages by (user, thread, time), read back by whole users, by threads, and
//! by a stretch of time, newest first.
//!
//!     cargo run -p cantle --example composite_keys

use cantle::Db;
use cantle::key::{self, Part};

/// A message's key. Keys sort as their parts do, so a user's messages lie together, within them a thread's, and
/// within it they stand in time order.
fn message_key(user: &str, thread: i64, micros: i64) -> Vec<u8> {
    key::encode(&(user, thread, micros))
}

/// Stores messages and reads them by user, by thread and by time.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("messages"))?;

    // They arrive in time order, which is not key order: that is what the store is made for.
    for minute in 0..600 {
        let user = ["ada", "bob", "adam"][minute as usize % 3];
        let thread = minute % 7;
        let micros = minute * 60_000_000;
        db.put(message_key(user, thread, micros), format!("message of minute {minute}"))?;
    }

    // Everything of a user. `range_of` takes whole parts: "adam" does not begin with the part "ada".
    let of_ada = db.range(key::range_of(&("ada",))).count();
    assert_eq!(of_ada, 200);

    // One thread of a user, newest first, the last three only.
    let mut last = Vec::new();
    for pair in db.range(key::range_of(&("ada", 4i64))).rev().take(3) {
        let (key, value) = pair?;
        // Keys are parsed back into their parts.
        let parts = key::parse(&key)?;
        assert_eq!(parts[..2], [Part::Text("ada".into()), Part::Int(4)]);
        last.push(String::from_utf8(value.to_vec())?);
    }
    // Every 21st minute is Ada's and of thread 4: 18, 39, …, 585.
    assert_eq!(last, ["message of minute 585", "message of minute 564", "message of minute 543"]);

    // A stretch of time within a thread: from one key to another.
    let from = message_key("bob", 1, 0);
    let to = message_key("bob", 1, 120 * 60_000_000);
    let early = db.range(from..to).count();
    assert_eq!(early, (0..120).filter(|minute| minute % 3 == 1 && minute % 7 == 1).count());

    // A user leaves: all that begins with the part "adam" goes, at a cost that does not depend on how much it is.
    db.delete_range(key::range_of(&("adam",)))?;
    assert_eq!(db.range(..).count(), 400);

    db.close()?;
    Ok(())
}

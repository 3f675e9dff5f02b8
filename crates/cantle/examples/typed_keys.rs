//! A typed keyspace: departures by (carrier, airport, time, number of the flight), asked by leading
//! parts and by times. The page `docs/choosing-keys.md` has the same in Python and in the shell.
//!
//!     cargo run -p cantle --example typed_keys

use cantle::Db;
use cantle::key::Time;

/// Stores departures in a new store and asks for them.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("departures"))?;

    let flights = db.typed::<(String, String, Time, u32), String>("flights")?;
    // Microseconds since 1970: 2013-07-04 in UTC. With the feature `jiff`, `Time::floor` takes that
    // crate's times.
    let at =
        |hour: i64, minute: i64| Time::from_micros(1_372_896_000_000_000 + (hour * 60 + minute) * 60_000_000);
    flights.put(&("UA", "EWR", at(10, 0), 1545), "delayed")?;
    flights.put(&("UA", "EWR", at(12, 30), 1714), "on time")?;
    flights.put(&("UA", "LGA", at(11, 0), 303), "on time")?;
    flights.put(&("DL", "LGA", at(9, 0), 461), "on time")?;

    // Everything of a carrier at an airport, in the order of time.
    let newark: Vec<_> = flights.prefix(&("UA", "EWR"))?.collect::<Result<_, _>>()?;
    assert_eq!(newark.iter().map(|(key, _)| key.3).collect::<Vec<_>>(), [1545, 1714]);
    // A stretch of time there, both ends by leading parts.
    let noon = flights.range(("UA", "EWR", at(12, 0))..("UA", "EWR", at(13, 0)))?;
    assert_eq!(noon.count(), 1);
    // The last of a carrier, wherever it leaves.
    let last = flights.prefix(&("UA",))?.next_back().transpose()?;
    assert_eq!(last.map(|((_, airport, ..), _)| airport).as_deref(), Some("LGA"));
    // One of them.
    assert_eq!(flights.get(&("UA", "EWR", at(10, 0), 1545))?.as_deref(), Some("delayed"));

    db.close()?;
    Ok(())
}

//! Departure boards: many small range scans, of which a few airlines, airports and months are asked
//! for far more often than the rest. They give the map its warm places.

use super::local_time::Clock;
use crate::failure::{Failure, Outcome};
use crate::measure::generator::{Permutation, Random, Zipf};
use cantle::Db;
use cantle::key::{self, Part};
use jiff::civil::date;

/// Flights on one board.
pub(crate) const ROWS: usize = 10;

/// Skew among airlines and airports: the papers' value.
const THETA: f64 = 0.99;

/// Fixes what is popular.
const SEED: u64 = 2013;

/// Reads `boards` boards: the next [`ROWS`] flights of an airline from an airport, from some moment
/// on. Returns how many rows they had.
pub(crate) fn read(db: &Db, boards: u64) -> Outcome<u64> {
    let places = places(db)?;
    if places.is_empty() {
        return Ok(0);
    }
    let ranks = Zipf::new(places.len() as u64, THETA);
    let order = Permutation::new(places.len() as u64, SEED);
    let mut random = Random::new(SEED);
    let clock = Clock::new_york()?;
    let (begin, end) = (clock.micros(date(2013, 1, 1), 0)?, clock.micros(date(2014, 1, 1), 0)?);
    let mut rows = 0;
    for _ in 0..boards {
        let (carrier, origin) = &places[order.apply(ranks.next(&mut random)) as usize];
        // The cube of a uniform number: half of the boards show the last eighth of the year.
        let before_end = (end - begin) as f64 * random.unit().powi(3);
        let from = key::encode(&(carrier.as_str(), origin.as_str(), end - before_end as i64));
        let to = key::range_of(&(carrier.as_str(), origin.as_str())).end;
        for pair in db.range(from..to).take(ROWS) {
            pair?;
            rows += 1;
        }
    }
    Ok(rows)
}

/// Airlines and the airports that they leave from, in key order: each found by one look behind all
/// flights of the one before.
fn places(db: &Db) -> Outcome<Vec<(String, String)>> {
    let (mut places, mut from) = (Vec::new(), Vec::new());
    while let Some(pair) = db.range(from.as_slice()..).next() {
        let (key, _) = pair?;
        let parts = key::parse(&key)?;
        let [Part::Text(carrier), Part::Text(origin), ..] = &parts[..] else {
            return Err(Failure::Damage(format!("a key that is no flight's: b\"{}\"", key.escape_ascii())));
        };
        from = key::range_of(&(carrier.as_str(), origin.as_str())).end;
        places.push((carrier.clone(), origin.clone()));
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_show_every_place_and_stay_within_it() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        assert_eq!(read(&db, 5).unwrap(), 0);
        let last = Clock::new_york().unwrap().micros(date(2014, 1, 1), 0).unwrap();
        for (carrier, origin) in [("UA", "EWR"), ("B6", "JFK"), ("UA", "LGA")] {
            for number in 0..3i64 {
                db.put(key::encode(&(carrier, origin, last, number)), b"").unwrap();
            }
        }
        let names = [("B6", "JFK"), ("UA", "EWR"), ("UA", "LGA")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(places(&db).unwrap(), names);
        assert_eq!(read(&db, 100).unwrap(), 300);
    }
}

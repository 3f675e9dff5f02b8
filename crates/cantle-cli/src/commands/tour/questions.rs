//! Three questions, each answered by one range scan, and their answers by reading the file itself.

use super::flights::{Columns, Flight};
use super::local_time::{Clock, rfc3339};
use super::narrate::Narrator;
use crate::failure::Outcome;
use crate::measure::display::{Align, Table, count, duration};
use cantle::{Db, key};
use jiff::civil::{Date, date};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

/// A Monday; within the first 20,000 flights, so that a shortened tour has it too.
const MORNING: Date = date(2013, 1, 14);

/// The hours of the morning, by New York's clock.
const MORNING_HOURS: Range<i8> = 6..8;

/// The Monday that the week begins with.
const WEEK: Date = date(2013, 1, 7);

const DAYS: i64 = 7;

/// Flights that the second question asks for.
const LAST: usize = 10;

/// The keys that each question asks for.
pub(crate) struct Questions {
    /// United out of Newark, one morning.
    united: Range<Vec<u8>>,
    united_micros: Range<i64>,
    /// All of Delta out of LaGuardia; the last ten are asked for.
    delta: Range<Vec<u8>>,
    /// JetBlue out of Kennedy, one week.
    jetblue: Range<Vec<u8>>,
    jetblue_micros: Range<i64>,
    clock: Clock,
}

/// A day's flights and delays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Delays {
    flights: u64,
    left: u64,
    minutes: i64,
    worst: i64,
}

impl Delays {
    fn add(&mut self, flight: &Flight) {
        self.flights += 1;
        if let Some(minutes) = flight.departure_delay {
            self.worst = if self.left == 0 { minutes } else { self.worst.max(minutes) };
            self.left += 1;
            self.minutes += minutes;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.left > 0).then(|| self.minutes as f64 / self.left as f64)
    }
}

/// The answers as the file gives them, found row by row while it is loaded: no range, no order, no
/// store.
pub(crate) struct Expected {
    /// The beginnings of the keys of the three airlines and airports. Rows of others are passed
    /// over undecoded, so that the file's answers cost the load next to nothing.
    beginnings: [Vec<u8>; 3],
    united: BTreeSet<Vec<u8>>,
    /// The latest so far; the earliest of them goes when there are more than [`LAST`].
    delta: BTreeSet<(i64, Vec<u8>)>,
    jetblue: Delays,
    united_micros: Range<i64>,
    jetblue_micros: Range<i64>,
}

impl Expected {
    pub(crate) fn new(questions: &Questions) -> Self {
        Self {
            beginnings: [("UA", "EWR"), ("DL", "LGA"), ("B6", "JFK")].map(|place| key::encode(&place)),
            united: BTreeSet::new(),
            delta: BTreeSet::new(),
            jetblue: Delays::default(),
            united_micros: questions.united_micros.clone(),
            jetblue_micros: questions.jetblue_micros.clone(),
        }
    }

    /// Takes a row of the file into account.
    pub(crate) fn see(&mut self, columns: &Columns, key: &[u8], value: &[u8]) -> Outcome {
        if !self.beginnings.iter().any(|beginning| key.starts_with(beginning)) {
            return Ok(());
        }
        let flight = Flight::read(columns, key, value)?;
        let at = flight.scheduled_micros;
        match (flight.carrier.as_str(), flight.origin.as_str()) {
            ("UA", "EWR") if self.united_micros.contains(&at) => {
                self.united.insert(key.to_vec());
            }
            ("DL", "LGA") => {
                self.delta.insert((at, key.to_vec()));
                if self.delta.len() > LAST {
                    self.delta.pop_first();
                }
            }
            ("B6", "JFK") if self.jetblue_micros.contains(&at) => self.jetblue.add(&flight),
            _ => {}
        }
        Ok(())
    }
}

fn between(carrier: &str, origin: &str, micros: &Range<i64>) -> Range<Vec<u8>> {
    key::encode(&(carrier, origin, micros.start))..key::encode(&(carrier, origin, micros.end))
}

impl Questions {
    pub(crate) fn new() -> Outcome<Self> {
        let clock = Clock::new_york()?;
        let united = clock.micros(MORNING, MORNING_HOURS.start)?..clock.micros(MORNING, MORNING_HOURS.end)?;
        let end = WEEK.saturating_add(jiff::Span::new().days(DAYS));
        let jetblue = clock.micros(WEEK, 0)?..clock.micros(end, 0)?;
        Ok(Self {
            united: between("UA", "EWR", &united),
            united_micros: united,
            delta: key::range_of(&("DL", "LGA")),
            jetblue: between("B6", "JFK", &jetblue),
            jetblue_micros: jetblue,
            clock,
        })
    }

    /// United's departures from Newark on one morning; returns how long the scan took.
    pub(crate) fn united(
        &self,
        narrator: &mut Narrator,
        db: &Db,
        dir: &str,
        columns: &Columns,
        expected: &Expected,
    ) -> Outcome<Duration> {
        let (from, to) = (rfc3339(self.united_micros.start)?, rfc3339(self.united_micros.end)?);
        narrator.step(&format!(
            "United's departures from Newark on {}, from {} to {}",
            MORNING.strftime("%A, %-d %B %Y"),
            hour(MORNING_HOURS.start),
            hour(MORNING_HOURS.end)
        ))?;
        narrator.say(
            "an airline's departures from one airport are neighbours: the answer is one stretch of keys",
        )?;
        narrator.code(&format!("$ cantle scan {dir} \\"))?;
        narrator.code(&format!("      --from UA,EWR,{from} --to UA,EWR,{to}"))?;
        narrator.code("for pair in db.range(from..to) { let (key, value) = pair?; … }")?;
        narrator.say("")?;

        let started = Instant::now();
        let pairs = db.range(self.united.clone()).collect::<cantle::Result<Vec<_>>>()?;
        let took = started.elapsed();
        let mut table = departures();
        for (key, value) in &pairs {
            table.row(self.departure(&Flight::read(columns, key, value)?, "%R")?);
        }
        narrator.lines(table.lines("  "))?;
        narrator.say("")?;
        let found: BTreeSet<Vec<u8>> = pairs.iter().map(|(key, _)| key.to_vec()).collect();
        narrator.check(
            pairs.len() == found.len() && found == expected.united,
            &format!(
                "{} rows in {}, the same as by reading the whole file",
                count(pairs.len() as u64),
                duration(took)
            ),
        )?;
        Ok(took)
    }

    /// The last ten Delta departures from LaGuardia, by a scan that runs backwards.
    pub(crate) fn delta(
        &self,
        narrator: &mut Narrator,
        db: &Db,
        dir: &str,
        columns: &Columns,
        expected: &Expected,
    ) -> Outcome<Duration> {
        narrator.step("The last ten Delta departures from LaGuardia")?;
        narrator
            .say("the same kind of stretch, read from its end: what lies before the ten is not touched")?;
        narrator.code(&format!("$ cantle scan {dir} --prefix DL,LGA --reverse --limit {LAST}"))?;
        narrator.code(&format!("db.range(cantle::key::range_of(&(\"DL\", \"LGA\"))).rev().take({LAST})"))?;
        narrator.say("")?;

        let started = Instant::now();
        let pairs = db.range(self.delta.clone()).rev().take(LAST).collect::<cantle::Result<Vec<_>>>()?;
        let took = started.elapsed();
        let mut table = departures();
        for (key, value) in &pairs {
            table.row(self.departure(&Flight::read(columns, key, value)?, "%a %-d %b %R")?);
        }
        narrator.lines(table.lines("  "))?;
        narrator.say("")?;
        let wanted = expected.delta.iter().rev().map(|(_, key)| key.as_slice());
        narrator.check(
            pairs.iter().map(|(key, _)| &**key).eq(wanted),
            &format!(
                "{} rows in {}, latest first, the same as by reading the whole file",
                pairs.len(),
                duration(took)
            ),
        )?;
        Ok(took)
    }

    /// JetBlue's mean delay out of Kennedy over a week.
    pub(crate) fn jetblue(
        &self,
        narrator: &mut Narrator,
        db: &Db,
        dir: &str,
        columns: &Columns,
        expected: &Expected,
    ) -> Outcome<Duration> {
        let (from, to) = (rfc3339(self.jetblue_micros.start)?, rfc3339(self.jetblue_micros.end)?);
        narrator.step(&format!(
            "JetBlue's mean delay out of Kennedy in the week of {}",
            WEEK.strftime("%-d %B %Y")
        ))?;
        narrator.say("sums read the week's rows and no others; times are New York's, keys hold UTC")?;
        narrator.code(&format!("$ cantle scan {dir} \\"))?;
        narrator.code(&format!("      --from B6,JFK,{from} --to B6,JFK,{to} --format json"))?;
        narrator.say("")?;

        let started = Instant::now();
        let mut days: BTreeMap<Date, Delays> = BTreeMap::new();
        let mut week = Delays::default();
        for pair in db.range(self.jetblue.clone()) {
            let (key, value) = pair?;
            let flight = Flight::read(columns, &key, &value)?;
            days.entry(self.clock.local(flight.scheduled_micros)?.date()).or_default().add(&flight);
            week.add(&flight);
        }
        let took = started.elapsed();
        let mut table = Table::new(&[
            ("day", Align::Left),
            ("flights", Align::Right),
            ("cancelled", Align::Right),
            ("mean delay", Align::Right),
            ("worst", Align::Right),
        ]);
        let days = days.iter().map(|(day, delays)| (day.strftime("%A %-d").to_string(), delays));
        for (day, delays) in days.chain([("the week".to_string(), &week)]) {
            table.row([
                day,
                count(delays.flights),
                count(delays.flights - delays.left),
                delays.mean().map_or("–".into(), |mean| format!("{mean:.1} min")),
                if delays.left > 0 { format!("{} min", delays.worst) } else { "–".into() },
            ]);
        }
        narrator.lines(table.lines("  "))?;
        narrator.say("")?;
        narrator.check(
            week == expected.jetblue,
            &format!("{} rows read and summed up in {}, as by the file", count(week.flights), duration(took)),
        )?;
        Ok(took)
    }

    fn departure(&self, flight: &Flight, format: &str) -> Outcome<[String; 6]> {
        let late = |minutes: Option<i64>, never: &str| match minutes {
            None => never.to_string(),
            Some(0) => "on time".into(),
            Some(minutes) => format!("{minutes:+} min"),
        };
        // A flight that left and never arrived at its destination was diverted.
        let never_arrived = if flight.departure_delay.is_some() { "diverted" } else { "" };
        Ok([
            flight.local(&self.clock, format)?,
            flight.number.map_or("–".into(), |number| format!("{} {number}", flight.carrier)),
            flight.destination.clone(),
            flight.aircraft.clone(),
            late(flight.departure_delay, "cancelled"),
            late(flight.arrival_delay, never_arrived),
        ])
    }
}

fn departures() -> Table {
    Table::new(&[
        ("scheduled", Align::Left),
        ("flight", Align::Left),
        ("to", Align::Left),
        ("aircraft", Align::Left),
        ("left", Align::Right),
        ("arrived", Align::Right),
    ])
}

fn hour(hour: i8) -> String {
    format!("{hour}:00")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(departure_delay: Option<i64>) -> Flight {
        Flight {
            carrier: "B6".into(),
            origin: "JFK".into(),
            scheduled_micros: 1_357_577_100_000_000,
            number: Some(1),
            destination: "MCO".into(),
            aircraft: String::new(),
            departure_delay,
            arrival_delay: None,
        }
    }

    #[test]
    fn cancelled_flights_count_but_have_no_delay() {
        let mut delays = Delays::default();
        assert_eq!(delays.mean(), None);
        for delay in [Some(-4), None, Some(-2)] {
            delays.add(&flight(delay));
        }
        assert_eq!(delays, Delays { flights: 3, left: 2, minutes: -6, worst: -2 });
        assert_eq!(delays.mean(), Some(-3.0));
    }

    #[test]
    fn departures_are_shown_by_new_yorks_clock() {
        let questions = Questions::new().unwrap();
        let row = questions.departure(&flight(Some(12)), "%F %R").unwrap();
        assert_eq!(row, ["2013-01-07 11:45", "B6 1", "MCO", "", "+12 min", "diverted"]);
        assert_eq!(questions.departure(&flight(None), "%R").unwrap()[4..], ["cancelled", ""]);
    }

    #[test]
    fn the_questions_ranges_hold_their_flights_and_no_others() {
        let questions = Questions::new().unwrap();
        let at = |carrier: &str, micros| key::encode(&(carrier, "EWR", micros, 1545i64));
        let Range { start, end } = questions.united_micros.clone();
        assert!(questions.united.contains(&at("UA", start)) && questions.united.contains(&at("UA", end - 1)));
        assert!(!questions.united.contains(&at("UA", end)) && !questions.united.contains(&at("UB", start)));
        assert_eq!(questions.jetblue_micros.end - questions.jetblue_micros.start, DAYS * 86_400_000_000);
    }
}

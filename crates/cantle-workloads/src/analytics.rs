//! A substitute for the production log of EvenDB §5.2: events of mobile apps in the order of time,
//! with the heavy-tailed popularity of Figure 1, and queries for the last minute of an app.

use crate::generator::{Permutation, Random};
use serde::{Deserialize, Serialize};

/// Apps in the trace (Figure 1).
pub const APPS: u64 = 60_000;

/// Popularity by rank: the number of ranks, their share of all events, and the power of the rank by
/// which the frequency falls. The first two columns are Figure 1's "fewer than 0.1 % cover 70 %"
/// and "1 % cover 94 %"; the powers make the curve continuous.
const SEGMENTS: [(u64, f64, f64); 3] =
    [(60, 0.70, 0.9), (600 - 60, 0.94 - 0.70, 1.6), (APPS - 600, 1.0 - 0.94, 1.8)];

/// Bytes of a key: app, time, sequence.
pub const KEY_BYTES: usize = 4 + 8 + 4;

/// Bytes of an event's value, so that a record has the paper's 800.
pub const VALUE_BYTES: usize = 800 - KEY_BYTES;

/// Parameters of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Events in a minute of the trace's own time: the number of events in a query's minute over
    /// all apps. The paper's feed had 13 million; a query would then return 400,000 rows on
    /// average.
    pub events_per_minute: u64,
}

impl Default for Shape {
    /// 290 rows per query on average.
    fn default() -> Self {
        Self { events_per_minute: 10_000 }
    }
}

/// One event. The order of events is that of their keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// The app's number.
    pub app: u32,
    /// Milliseconds since the trace began.
    pub time_ms: u64,
    /// Distinguishes events of an app in one millisecond.
    pub sequence: u32,
}

impl Event {
    /// The key: app, time and sequence, big-endian, so that an app's events are neighbours in the
    /// order of time.
    pub fn key(&self) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        key[..4].copy_from_slice(&self.app.to_be_bytes());
        key[4..12].copy_from_slice(&self.time_ms.to_be_bytes());
        key[12..].copy_from_slice(&self.sequence.to_be_bytes());
        key
    }
}

/// The trace. Any event is computed in constant time, so that threads only share a counter.
#[derive(Debug, Clone)]
pub struct Analytics {
    shape: Shape,
    seed: u64,
    popularity: Alias,
    apps: Permutation,
}

impl Analytics {
    /// The trace of this seed.
    pub fn new(shape: Shape, seed: u64) -> Self {
        let mut shares = Vec::with_capacity(APPS as usize);
        for (ranks, share, power) in SEGMENTS {
            let first = shares.len() as u64 + 1;
            let weights: Vec<f64> = (first..first + ranks).map(|rank| (rank as f64).powf(-power)).collect();
            let sum: f64 = weights.iter().sum();
            shares.extend(weights.iter().map(|weight| weight / sum * share));
        }
        Self { shape, seed, popularity: Alias::new(&shares), apps: Permutation::new(APPS, seed) }
    }

    /// A random app, with the popularity of events.
    pub fn app(&self, random: &mut Random) -> u32 {
        self.apps.apply(self.popularity.draw(random) as u64) as u32
    }

    /// The time of event `number`.
    pub fn time_ms(&self, number: u64) -> u64 {
        (u128::from(number) * 60_000 / u128::from(self.shape.events_per_minute)) as u64
    }

    /// Event `number`; events are in the order of time.
    pub fn event(&self, number: u64) -> Event {
        let app = self.app(&mut Random::stream(self.seed, number));
        // Keys of one app and millisecond differ by the event's number.
        Event { app, time_ms: self.time_ms(number), sequence: number as u32 }
    }

    /// The first key of an app's last minute when `events` have happened, and the first key after
    /// it.
    pub fn last_minute(&self, app: u32, events: u64) -> ([u8; KEY_BYTES], [u8; KEY_BYTES]) {
        let now_ms = self.time_ms(events);
        let from = Event { app, time_ms: now_ms.saturating_sub(60_000), sequence: 0 };
        (from.key(), Event { app, time_ms: now_ms + 1, sequence: 0 }.key())
    }
}

/// Vose's alias method: a draw from any distribution costs one random number and at most two table
/// look-ups.
#[derive(Debug, Clone)]
struct Alias {
    slots: Vec<(f64, u32)>,
}

impl Alias {
    fn new(shares: &[f64]) -> Self {
        let n = shares.len();
        let mut scaled: Vec<f64> = shares.iter().map(|share| share * n as f64).collect();
        let mut slots = vec![(1.0, 0); n];
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..n).partition(|&slot| scaled[slot] < 1.0);
        while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
            slots[poor] = (scaled[poor], rich as u32);
            scaled[rich] -= 1.0 - scaled[poor];
            if scaled[rich] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        Self { slots }
    }

    fn draw(&self, random: &mut Random) -> u32 {
        let place = random.unit() * self.slots.len() as f64;
        let slot = (place as usize).min(self.slots.len() - 1);
        let (own, other) = self.slots[slot];
        if place.fract() < own { slot as u32 } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn popularity_is_that_of_figure_1() {
        let trace = Analytics::new(Shape::default(), 1);
        let events = 400_000u64;
        let mut counts = HashMap::new();
        for number in 0..events {
            *counts.entry(trace.event(number).app).or_insert(0u64) += 1;
        }
        let mut counts: Vec<u64> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let share = |apps: usize| counts.iter().take(apps).sum::<u64>() as f64 / events as f64;
        assert!((share(60) - 0.70).abs() < 0.005, "0.1 % of the apps: {}", share(60));
        assert!((share(600) - 0.94).abs() < 0.005, "1 % of the apps: {}", share(600));
        assert!(counts.len() > 3_000, "a tail of {} apps", counts.len());
    }

    #[test]
    fn events_are_in_the_order_of_time_and_have_keys_of_their_own() {
        let trace = Analytics::new(Shape { events_per_minute: 1_000_000 }, 2);
        let events: Vec<Event> = (0..50_000).map(|number| trace.event(number)).collect();
        assert!(events.windows(2).all(|pair| pair[0].time_ms <= pair[1].time_ms));
        assert_eq!(events.iter().map(Event::key).collect::<HashSet<_>>().len(), events.len());
        let mut sorted = events.clone();
        sorted.sort();
        assert!(sorted.windows(2).all(|pair| pair[0].key() < pair[1].key()));
        assert_eq!(events[77], Analytics::new(Shape { events_per_minute: 1_000_000 }, 2).event(77));
    }

    #[test]
    fn the_last_minute_has_as_many_events_of_an_app_as_there_were() {
        let trace = Analytics::new(Shape { events_per_minute: 1_000 }, 3);
        let events = 10_000;
        let app = trace.event(9_990).app;
        let (from, to) = trace.last_minute(app, events);
        let found = (0..events).map(|n| trace.event(n).key()).filter(|key| (from..to).contains(key)).count();
        let counted = (9_000..events).filter(|&n| trace.event(n).app == app).count();
        assert_eq!(found, counted);
        assert!(found > 0);
    }
}

//! `cantle top`: a store that a program has open, live.

use crate::failure::{Failure, Outcome};
use crate::interrupt::Interrupt;
use crate::merging;
use crate::output::{Output, human_bytes, human_count, terminal_columns};
use crate::region_map::{self, Canvas};
use crate::seen::Seen;
use crate::store::{KeyArgs, StoreArgs};
use cantle::Stats;
use cantle::stats::{KeyspaceStats, WriteStalls};
use clap::Args;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Show a store live while a program has it open: rates, memory, maintenance, and the map of its ranges
///
/// The program opens its store with the option `monitor` (`monitor(true)` in Rust, `cantle_options_monitor` in C,
/// `monitor=True` in Python). Ctrl-C ends the command.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Top {
    #[command(flatten)]
    store: StoreArgs,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = parse_interval)]
    interval: f64,
    /// Looks until the command ends [default: without end]
    #[arg(long, value_name = "NUMBER")]
    count: Option<u64>,
    /// A line of JSON for each look: the library's Stats
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keys: KeyArgs,
}

const EXAMPLES: &str = "\
Examples:
  cantle top flights
  cantle top flights --keyspace events --interval 0.5
  cantle top flights --json --count 60 > minute.jsonl";

fn parse_interval(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is to be a number of seconds".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("it is to be 0.1 to 3600".into()) }
}

/// Shows a screen of its own in a terminal, and the former one again when it goes.
struct Screen;

impl Screen {
    // Without wrapping: a line that is too long would push the first one off.
    const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
    const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

    fn write(text: &str) -> Outcome {
        let mut output = Output::new();
        output.bytes(text.as_bytes())?;
        output.finish()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = Self::write(Self::LEAVE);
    }
}

impl Top {
    pub(crate) fn run(self) -> Outcome {
        let Some(seen) = Seen::elsewhere(&self.store)? else {
            return Err(Failure::Failed(format!(
                "no program that can be asked has {} open: the program opens its store with the option `monitor`; \
                 `cantle stats` and `cantle inspect` show a store that no program has open",
                self.store.db.display()
            )));
        };
        let interrupt = Interrupt::catch()
            .map_err(|error| Failure::Failed(format!("cannot watch for signals: {error}")))?;
        let screen = (!self.json && std::io::stdout().is_terminal()).then_some(Screen);
        if screen.is_some() {
            Screen::write(Screen::ENTER)?;
        }
        let (mut last, mut looks) = (None, 0);
        while interrupt.signal().is_none() {
            let stats = seen.stats()?;
            let now = Instant::now();
            if self.json {
                let mut output = Output::new();
                output.line(serde_json::to_string(&stats)?)?;
                output.finish()?;
            } else {
                let frame = self.frame(&seen, &stats, last.as_ref().map(|(then, at)| (then, now - *at)))?;
                let frame = match screen {
                    // From the upper left corner, each line to its end, and nothing below.
                    Some(_) => format!("\x1b[H{}\x1b[J", frame.replace('\n', "\x1b[K\n")),
                    None => frame + "\n",
                };
                Screen::write(&frame)?;
            }
            last = Some((stats, now));
            looks += 1;
            if self.count.is_some_and(|count| looks >= count) {
                break;
            }
            interrupt.sleep(Duration::from_secs_f64(self.interval));
        }
        Ok(())
    }

    /// One look as text. Rates need an earlier one.
    fn frame(&self, seen: &Seen, stats: &Stats, last: Option<(&Stats, Duration)>) -> Outcome<String> {
        let mut text = summary(&self.store.db.display().to_string(), stats, last);
        let canvas = Canvas::of_stdout(rows_left(&text), seen.layout()?);
        let (codec, _) = seen.codec(&self.keys)?;
        text.push('\n');
        text += &region_map::draw(&seen.regions()?, canvas, |key| codec.show_start(key));
        Ok(text)
    }
}

/// Rows of the terminal for the map below a text: without the blank line, the head of the map, the
/// one or two lines of its sums, and the row of the cursor.
fn rows_left(text: &str) -> usize {
    let rows = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(24, |size| usize::from(size.ws_row));
    rows.saturating_sub(text.lines().count() + 5).max(4)
}

fn summary(path: &str, stats: &Stats, last: Option<(&Stats, Duration)>) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let per_second = |now: u64, then: u64, took: Duration| {
        human_count((now.saturating_sub(then) as f64 / took.as_secs_f64().max(1e-3)).round() as u64)
    };
    let width = terminal_columns().unwrap_or(100);
    let _ = writeln!(text, "{}", path.chars().take(width).collect::<String>());
    let _ = writeln!(
        text,
        "memory {} of {}   disk {}   checkpoints {}   snapshots {}   maintenance {} running, {} waiting",
        human_bytes(stats.memory_used),
        human_bytes(stats.memory_budget),
        human_bytes(stats.disk_bytes),
        human_count(stats.checkpoints),
        stats.open_snapshots,
        stats.maintenance_running,
        stats.maintenance_queued,
    );
    let looked_up = |stats: &Stats| stats.cache_hits + stats.cache_misses;
    if let Some((then, _)) = last {
        let asked = looked_up(stats).saturating_sub(looked_up(then));
        let hits = stats.cache_hits.saturating_sub(then.cache_hits);
        let delayed = stats.write_delay_total.saturating_sub(then.write_delay_total);
        let share = (hits * 100).checked_div(asked).map_or_else(|| "-".into(), |share| format!("{share} %"));
        let _ = writeln!(
            text,
            "block cache {share} of {} blocks   writers delayed by {:.0} ms   longest write {:.1} ms",
            human_count(asked),
            delayed.as_secs_f64() * 1e3,
            stats.write_longest.as_secs_f64() * 1e3,
        );
        text += &new_stalls(&then.write_stalls, &stats.write_stalls);
    }
    if let Some(reason) = &stats.read_only {
        let _ = writeln!(text, "read-only: {reason}");
    }
    let _ = writeln!(
        text,
        "\n{:<24}{:>10}{:>10}{:>10}{:>10}{:>12}{:>12}",
        "keyspace", "writes/s", "gets/s", "scans/s", "regions", "live", "garbage"
    );
    for keyspace in &stats.keyspaces {
        let then = last.and_then(|(then, took)| {
            let then = then.keyspaces.iter().find(|then| then.name == keyspace.name)?;
            Some((then, took))
        });
        let rate = |of: fn(&KeyspaceStats) -> u64| {
            then.map_or_else(|| "-".into(), |(then, took)| per_second(of(keyspace), of(then), took))
        };
        let name: String = keyspace.name.escape_debug().take(23).collect();
        let _ = writeln!(
            text,
            "{name:<24}{:>10}{:>10}{:>10}{:>10}{:>12}{:>12}",
            rate(|stats| stats.writes),
            rate(|stats| stats.gets),
            rate(|stats| stats.scans),
            human_count(keyspace.regions),
            human_bytes(keyspace.live_bytes),
            human_bytes(keyspace.file_bytes().saturating_sub(keyspace.live_bytes)),
        );
        let merges = keyspace.lsm().map_or(&[][..], |lsm| lsm.running_merges);
        for merge in merges {
            let _ = writeln!(text, "  {}", merging::line(merge));
        }
    }
    text
}

/// The stalls of writes since the last look by their cause, if there were any.
fn new_stalls(then: &WriteStalls, now: &WriteStalls) -> String {
    let causes = |of: &WriteStalls| {
        [("brake", of.brake), ("lock", of.lock), ("allocation", of.allocation), ("device", of.device)]
    };
    let new = causes(now).into_iter().zip(causes(then)).filter_map(|((cause, now), (_, then))| {
        let stalls = now.count.saturating_sub(then.count);
        (stalls > 0).then(|| format!("   {cause} {}", human_count(stalls)))
    });
    let new: String = new.collect();
    if new.is_empty() { new } else { format!("stalls of writes{new}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_over_time() {
        let mut then = Stats::default();
        let mut keyspace = KeyspaceStats::default();
        (keyspace.name, keyspace.writes) = ("flights".into(), 100);
        then.keyspaces.push(keyspace.clone());
        then.cache_hits = 10;
        let mut now = then.clone();
        (keyspace.writes, keyspace.gets) = (1_100, 30);
        now.keyspaces[0] = keyspace;
        (now.cache_hits, now.cache_misses) = (85, 25);
        let first = summary("/data/store", &then, None);
        assert!(first.lines().last().unwrap().starts_with("flights") && first.contains(" - "), "{first}");
        let second = summary("/data/store", &now, Some((&then, Duration::from_secs(2))));
        let line = second.lines().last().unwrap();
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells[..4], ["flights", "500", "15", "0"], "{second}");
        assert!(second.contains("block cache 75 % of 100 blocks"), "{second}");
        assert!(!second.contains("stalls"), "{second}");
        now.write_stalls.lock.count = 2;
        (then.write_stalls.device.count, now.write_stalls.device.count) = (5, 6);
        let third = summary("/data/store", &now, Some((&then, Duration::from_secs(2))));
        assert!(third.contains("\nstalls of writes   lock 2   device 1\n"), "{third}");
    }

    #[test]
    fn an_interval_is_within_bounds() {
        assert_eq!(parse_interval("0.5"), Ok(0.5));
        for wrong in ["0", "1e9", "-1", "NaN", "soon"] {
            assert!(parse_interval(wrong).is_err(), "{wrong}");
        }
    }
}

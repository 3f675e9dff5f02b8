//! `cantle tour`: real data in, questions answered, a crash survived, and what it cost.
//!
//! Works in one directory, which it names: temporary, unless one is given, and then the store
//! stays. Each step checks what it shows against the data itself.

mod boards;
mod crash;
mod design;
mod flights;
mod ingest;
mod local_time;
mod narrate;
mod questions;

use crate::failure::{Failure, Outcome};
use crate::keyfmt::KeyCodec;
use crate::measure::display::{bytes, count, duration, rate};
use crate::measure::failed;
use crate::output::Output;
use crate::region_map::{self, Canvas};
use crate::tuning::parse_layout;
use design::{Design, MEMORY_BYTES};
use ingest::Digest;
use narrate::Narrator;
use questions::{Expected, Questions};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// See the store at work: 336,776 flights, three questions, a crash
///
/// Loads the flights out of New York in 2013 in time order, answers three questions by range scans,
/// kills a writing process half way and shows that nothing acknowledged is lost, and draws the
/// map of key ranges. Takes a few seconds; the exit code says whether every check held.
///
/// --json prints one object: ok, directory, rows, acknowledged_writes, checks, failed (an array of texts).
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  cantle tour
  cantle tour --dir /tmp/tour          keeps the store, to go on with
  cantle tour --layout flsm            the same in levels of guards, PebblesDB's layout
  cantle tour --layout forest          the same in stages of trees, SifrDB's layout
  cantle tour --rows 20000             the first weeks of January only")]
pub(crate) struct Args {
    /// Keep the store here, in a directory that does not exist or is empty [default: a temporary
    /// one]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Load only the first N flights
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rows: Option<u64>,

    /// The flights, as CSV or CSV.gz [default: those that the program carries]
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,

    /// Layout of the store: chunk, flsm or forest, with small regions, or with options of its own, as
    /// flsm:guard_bytes=1MiB
    #[arg(long, value_name = "LAYOUT", value_parser = parse_layout, default_value = "chunk")]
    pub(crate) layout: String,

    /// The report as JSON, without the narration
    #[arg(long)]
    pub(crate) json: bool,

    /// The process that is killed: the directory of the store it writes to
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) writer: Option<PathBuf>,
}

/// The map's size: within 100 columns behind the narrator's indentation, and one screen with what
/// is above it.
const MAP_COLUMNS: usize = 96;
const MAP_LINES: usize = 40;

/// Departure boards that are read before the map is drawn, to give it warm places.
const BOARDS: u64 = 20_000;

/// Runs the command. Checks that did not hold are reported as damage.
pub(crate) fn run(args: Args) -> Outcome {
    let design = Design::new(&args.layout)?;
    if let Some(dir) = &args.writer {
        return crash::child(&design.options().create_if_missing(false).open(dir)?, &design);
    }
    // Held until the end: dropped, it removes its directory.
    let (dir, temporary) = match &args.dir {
        Some(dir) => (dir.clone(), None),
        None => {
            let temporary = tempfile::Builder::new().prefix("cantle-tour-").tempdir();
            let temporary = temporary.map_err(failed("create a directory in", &std::env::temp_dir()))?;
            (temporary.path().join("flights"), Some(temporary))
        }
    };
    let mut narrator = Narrator::new(args.json);
    narrator.say(&format!("A tour of Cantle, in {}", dir.display()))?;
    let visited = visit(&mut narrator, &args, &design, &dir)?;
    if args.json {
        let (checks, failed) = narrator.checks();
        let mut output = Output::new();
        output.json(&json!({
            "ok": failed.is_empty(), "directory": dir.display().to_string(), "rows": visited.rows,
            "acknowledged_writes": visited.acknowledged, "checks": checks, "failed": failed,
        }))?;
        output.finish()?;
    }
    if temporary.is_none() {
        narrator.say(&format!(
            "The store is kept: try the commands above, or `cantle inspect {}`.",
            dir.display()
        ))?;
    } else {
        narrator.say("The store goes now; with --dir DIR it stays, and the commands above work on it.")?;
    }
    match narrator.checks() {
        (_, []) => Ok(()),
        (all, wrong) => Err(Failure::Damage(format!(
            "{} of {all} checks did not hold: {}",
            wrong.len(),
            wrong.join("; ")
        ))),
    }
}

/// The figures of a tour.
struct Visited {
    rows: u64,
    acknowledged: u64,
}

fn visit(narrator: &mut Narrator, args: &Args, design: &Design, dir: &Path) -> Outcome<Visited> {
    let shown = dir.display().to_string();
    let questions = Questions::new()?;

    narrator.step("Load the flights out of New York in 2013, in time order, which is not key order")?;
    narrator
        .say("key: (carrier, origin, scheduled departure, flight number); value: the row's other columns")?;
    narrator.say(design.places())?;
    narrator.code("let key = cantle::key::encode(&(\"UA\", \"EWR\", scheduled_micros, 1545_i64));")?;
    narrator.code("db.put(key, value)?;")?;
    let db = design.options().error_if_exists(true).open(dir)?;
    let loaded =
        ingest::load(narrator, &db, dir, args.data.as_deref(), args.rows, Expected::new(&questions))?;

    let (columns, expected) = (&loaded.columns, &loaded.expected);
    let united = questions.united(narrator, &db, &shown, columns, expected)?;
    let delta = questions.delta(narrator, &db, &shown, columns, expected)?;
    let jetblue = questions.jetblue(narrator, &db, &shown, columns, expected)?;
    let by_then = design.in_memory(&db.stats());
    narrator.say("")?;
    narrator.say(&format!("{}: by now {by_then}", design.stays()))?;

    narrator.step(&format!(
        "A process writes {} bookings to the same store and is killed half way",
        count(crash::BOOKINGS)
    ))?;
    db.close()?;
    let acknowledged = crash::write_and_kill(narrator, design, dir)?;
    let started = Instant::now();
    let db = design.options().create_if_missing(false).open(dir)?;
    let open = started.elapsed();
    crash::check(narrator, &db, design, acknowledged, open)?;
    let (found, ascending) = Digest::of(&db)?;
    narrator.check(
        ascending && found == loaded.digest,
        &format!("the {} flights are as they were, byte for byte", count(found.rows)),
    )?;

    narrator.step(design.map())?;
    narrator.code(&format!("$ cantle inspect {shown}"))?;
    let started = Instant::now();
    let rows = boards::read(&db, BOARDS)?;
    narrator.say(&format!(
        "after {} departure boards (the next {} flights of an airline from an airport), some",
        count(BOARDS),
        boards::ROWS
    ))?;
    narrator.say(&format!(
        "in great demand: {} rows in {}; {}",
        count(rows),
        duration(started.elapsed()),
        design.legend()
    ))?;
    narrator.say("")?;
    let codec = KeyCodec::new(None, &columns.schema());
    let canvas = Canvas {
        width: MAP_COLUMNS,
        lines_max: MAP_LINES,
        color: narrator.is_styled(),
        noun: db.layout().regions(),
    };
    narrator.lines(region_map::draw(&db.regions()?, canvas, |key| codec.show_start(key)).lines())?;

    narrator.step("What the tour measured")?;
    summary(narrator, &loaded, [united, delta, jetblue], acknowledged, open, &design.in_memory(&db.stats()))?;
    db.close()?;
    Ok(Visited { rows: found.rows, acknowledged })
}

fn summary(
    narrator: &mut Narrator,
    loaded: &ingest::Loaded,
    scans: [std::time::Duration; 3],
    acknowledged: u64,
    open: std::time::Duration,
    in_memory: &str,
) -> Outcome {
    let flights = loaded.digest.rows;
    let per_second = count(rate(flights, loaded.took) as u64);
    let mut facts = vec![("loading", format!("{} flights, {per_second} per second", count(flights)))];
    if let Some(ratio) = loaded.device_amplification {
        facts.push(("written", format!("{ratio:.2} bytes to the device per byte of key and value")));
    }
    if let Some(peak) = loaded.peak_resident_bytes {
        let budget = bytes(MEMORY_BYTES);
        facts.push(("memory", format!("{} resident at most while loading; budget {budget}", bytes(peak))));
    }
    facts.push(("in memory", in_memory.to_owned()));
    facts.push(("questions", scans.map(duration).join(", ")));
    facts.push((
        "crash",
        format!("{} acknowledged writes kept, opened in {}", count(acknowledged), duration(open)),
    ));
    let (checks, wrong) = narrator.checks();
    facts.push(("checks", format!("{} of {checks} held", checks as usize - wrong.len())));
    for (name, text) in facts {
        narrator.say(&format!("{name:<10} {text}"))?;
    }
    narrator.say("")
}

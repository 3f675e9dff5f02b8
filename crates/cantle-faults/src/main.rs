//! `cantle-faults`: runs the doors of the fault lab for a given time, and reports their work and
//! findings.

#[cfg(feature = "canaries")]
mod canaries;
mod report;

use cantle::LayoutKind;
use cantle_faults::doors::{DOORS, Door, door, machinery};
use cantle_faults::visit::{Effort, Visit, words_of};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use report::{Report, Visited};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Break stores on purpose, at every layer, and report what was lost, wrong or dead
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Args {
    /// Duration, divided among the doors; without it, the work of `--rounds`
    #[arg(long, default_value_t = 0.0, value_parser = parse_minutes)]
    minutes: f64,

    /// Multiple of the work of `cargo test`, with other seeds
    #[arg(long, default_value_t = 1, conflicts_with = "minutes")]
    rounds: u64,

    /// Run until each door has opened and checked this number of states; only doors that count
    /// states, crash-states if none is named
    #[arg(long, conflicts_with_all = ["minutes", "rounds"], value_parser = clap::value_parser!(u64).range(1..))]
    states: Option<u64>,

    /// Only these doors, separated by commas; `--list` shows them
    #[arg(long, value_delimiter = ',', value_parser = parse_door)]
    doors: Vec<Door>,

    /// Seed of the random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// The one case that a finding named; needs the one door
    #[arg(long)]
    case: Option<String>,

    /// The layout of the stores
    #[arg(long, default_value = "chunk", value_parser = parse_layout)]
    layout: LayoutKind,

    /// The report as JSON
    #[arg(long)]
    json: bool,

    /// List the doors and end
    #[arg(long)]
    list: bool,

    /// Plant bugs one after the other, all or those named, and show which door finds which
    #[cfg(feature = "canaries")]
    #[arg(long, value_delimiter = ',', num_args = 0..)]
    canaries: Option<Vec<String>>,

    /// With `--canaries`: run every door, or those named, with each bug, and show which of them
    /// find it
    #[cfg(feature = "canaries")]
    #[arg(long, requires = "canaries")]
    matrix: bool,

    #[command(subcommand)]
    hidden: Option<Hidden>,
}

#[derive(Debug, clap::Subcommand)]
enum Hidden {
    /// The processes that doors start
    #[command(hide = true)]
    Child { part: Vec<String> },
}

const EXAMPLES: &str = "\
Examples:
  cantle-faults --minutes 60
  cantle-faults --doors crash-states --minutes 30 --seed 7
  cantle-faults --doors crash-states --rounds 100
  cantle-faults --states 5000000
  cantle-faults --doors crash-states --case sync:0.3.8";

fn parse_minutes(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(minutes) if (0.0..1e6).contains(&minutes) => Ok(minutes),
        _ => Err(format!("{text:?} is no number of minutes")),
    }
}

fn parse_door(text: &str) -> Result<Door, String> {
    door(text).ok_or_else(|| {
        let names: Vec<&str> = DOORS.iter().map(|door| door.name).collect();
        format!("there is no door {text:?}, but {}", names.join(", "))
    })
}

fn parse_layout(text: &str) -> Result<LayoutKind, String> {
    text.parse().map_err(|error: cantle::Error| error.to_string())
}

fn main() -> ExitCode {
    let args = Args::parse();
    #[cfg(feature = "canaries")]
    canaries::plant();
    if let Some(Hidden::Child { part }) = &args.hidden {
        return match machinery::run_child(part) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::from(2)
            }
        };
    }
    if args.list {
        for door in DOORS {
            println!("{:16}{}", door.name, door.about);
        }
        return ExitCode::SUCCESS;
    }
    #[cfg(feature = "canaries")]
    if let Some(names) = &args.canaries {
        return canaries::hunt_all(&args, names);
    }
    let doors = match (&args.doors[..], args.states) {
        ([], Some(_)) => door("crash-states").into_iter().collect(),
        ([], None) => DOORS.to_vec(),
        _ => args.doors.clone(),
    };
    if args.states.is_some()
        && let Some(door) = doors.iter().find(|door| !door.counts_states())
    {
        eprintln!("--states: {} counts no states; crash-states and failing-calls do", door.name);
        return ExitCode::from(2);
    }
    if args.case.is_some() && doors.len() != 1 {
        eprintln!("--case needs the one door that it is a case of: --doors NAME");
        return ExitCode::from(2);
    }
    let started = Instant::now();
    let mut report = Report::new(&args.layout, args.seed);
    for (index, door) in doors.iter().enumerate() {
        let left = Duration::from_secs_f64(args.minutes * 60.0).saturating_sub(started.elapsed());
        let share = left / (doors.len() - index) as u32;
        report.visited.push(visit(door, &args, share));
    }
    report.seconds = started.elapsed().as_secs_f64();
    if args.json {
        report.print_json()
    } else {
        report.print()
    }
    if report.findings() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one door; its panic is a finding.
fn visit(door: &Door, args: &Args, share: Duration) -> Visited {
    let started = Instant::now();
    let effort = match args.states {
        Some(states) => Effort::States(states),
        None if args.minutes > 0.0 => Effort::Until(started + share),
        None => Effort::Rounds(args.rounds),
    };
    let visit = Visit::new(args.layout, args.seed, effort).of_case(args.case.clone());
    let bar = progress(door, (args.minutes > 0.0).then_some(share));
    let found = catch_unwind(AssertUnwindSafe(|| (door.enter)(&visit))).err().map(|panic| {
        let words = words_of(&*panic);
        let how = match case_in(words) {
            Some(case) => format!(" --case {case}"),
            None if visit.is_long() => " --minutes 1".into(),
            None => String::new(),
        };
        let layout = match args.layout {
            layout if layout == LayoutKind::default() => String::new(),
            layout => format!(" --layout {layout}"),
        };
        let seed = visit.round_seed();
        format!("{words}\nagain: cantle-faults --doors {} --seed {seed}{layout}{how}", door.name)
    });
    bar.finish_and_clear();
    let counts = visit.tally();
    let is_whole = visit.is_long() && args.case.is_none();
    Visited {
        door: door.name,
        seconds: started.elapsed().as_secs_f64(),
        not_reached: if is_whole { report::not_reached(door.name, &counts) } else { Vec::new() },
        counts,
        skipped: visit.skipped(),
        finding: found,
    }
}

/// The case that a finding names.
fn case_in(finding: &str) -> Option<&str> {
    let (_, rest) = finding.split_once("CANTLE_TEST_CASE=")?;
    rest.split_whitespace().next().map(|case| case.trim_end_matches([',', ';', ':']))
}

/// Hidden if there is no terminal; the report contains everything.
fn progress(door: &Door, share: Option<Duration>) -> ProgressBar {
    let bar = share.map_or_else(ProgressBar::new_spinner, |share| ProgressBar::new(share.as_secs()));
    let template = if share.is_some() {
        "{prefix:16} {bar:30} {elapsed} of {len} s"
    } else {
        "{prefix:16} {spinner} {elapsed}"
    };
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(door.name);
    bar.enable_steady_tick(Duration::from_millis(500));
    if share.is_some() {
        let ticking = bar.downgrade();
        std::thread::spawn(move || {
            while let Some(bar) = ticking.upgrade().filter(|bar| !bar.is_finished()) {
                bar.set_position(bar.elapsed().as_secs());
                drop(bar);
                std::thread::sleep(Duration::from_secs(1));
            }
        });
    }
    bar
}

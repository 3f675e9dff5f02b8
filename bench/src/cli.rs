//! The command line.

use crate::engine::{self, Durability, Spec};
use crate::failure::{Result, on};
use crate::job::Step;
use crate::measure::group;
use crate::record::{Plan, Run};
use crate::runner::{self, Results, Runner};
use crate::suite::{self, Cell, Parameters, Suite};
use crate::{reference, report, smoke, trace, worker};
use cantle_workloads::size::{parse_duration, parse_size};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measures Cantle beside other stores, on the same work in the same run
#[derive(Debug, clap::Parser)]
#[command(
    version,
    after_help = "Examples, from the repository's root:
  cargo run --release --manifest-path bench/Cargo.toml -- smoke
  cargo run --release --manifest-path bench/Cargo.toml --features rocksdb -- run --suite evendb --scale 1/64 \\
      --memory 1GiB --engines cantle,rocksdb,btree --only figure-6d,figure-7
  cargo run --release --manifest-path bench/Cargo.toml -- report bench/results/evendb"
)]
pub struct Command {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Run a suite, or go on with one that was interrupted, and write its report
    Run(RunArgs),
    /// Run a recorded trace
    Replay {
        /// The trace, as `trace` writes it
        file: PathBuf,
        #[command(flatten)]
        common: Common,
    },
    /// Write the report of a run anew
    Report {
        /// The run's directory
        dir: PathBuf,
        /// The file to write [default: report.html in the run's directory]
        #[arg(long)]
        html: Option<PathBuf>,
        /// Print the comparison of every cell as a table in Markdown, too
        #[arg(long)]
        markdown: bool,
    },
    /// Compare Cantle with maps in memory and bare appends, in one process and in turns
    Reference(reference::Args),
    /// Write a generated trace as text
    Trace(trace::Args),
    /// List the engines that can be measured
    Engines,
    /// List the figures and cells of a suite
    Figures {
        /// The suite
        #[arg(default_value = "evendb")]
        suite: String,
    },
    /// Every suite and adapter of Cantle at a tiny size, checked
    Smoke,
    /// A child of a run
    #[command(hide = true)]
    Worker,
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// The suite
    #[arg(long, default_value = "evendb")]
    suite: String,

    /// The share of the paper's data, memory and operations, as in 1/64; records and chunks keep their size
    #[arg(long, default_value = "1/64", value_parser = parse_scale)]
    scale: f64,

    /// Only figures whose names begin so, separated by commas; `figures` lists them
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,

    /// Sizes of data sets in the paper's GB, before scaling, instead of those of each experiment
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<u64>,

    /// Sizes of the analytics trace, instead of the paper's
    #[arg(long, value_delimiter = ',')]
    trace_sizes: Vec<u64>,

    /// Among these figures only cells whose names contain one of these words, as in zipf-composite
    /// or E100/
    #[arg(long, value_delimiter = ',')]
    cells: Vec<String>,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Engines, in the order of their turns; `rocksdb` is both of its configurations
    #[arg(long, value_delimiter = ',', default_value = "cantle")]
    engines: Vec<String>,

    /// The memory limit of each engine, page cache included [default: the paper's 16 GiB, scaled]
    #[arg(long, value_parser = parse_size)]
    memory: Option<u64>,

    /// Memory budget of the engines, as a share of the limit: the paper's 12 of 16 GB
    #[arg(long, default_value_t = 0.75, value_parser = parse_share)]
    budget: f64,

    /// The failure that an acknowledged write survives
    #[arg(long, value_enum, default_value_t = Durability::Process)]
    durability: Durability,

    /// Threads that run operations, in experiments that do not vary their number [default: as many
    /// as cores]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Option<u64>,

    /// Background threads of each engine [default: Cantle's, half the cores, at least 1 and at most
    /// 4]
    #[arg(long)]
    background_threads: Option<usize>,

    /// Turns of each engine at each cell [default: 3; 1 in the suites pebblesdb and sifrdb, whose time is limited]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: Option<u64>,

    /// The longest time of a measured step
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    step: Duration,

    /// The longest time of a step that only writes, unless each write is synced: stores defer work, which short steps do not show
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    writing_step: Duration,

    /// The longest time of all turns at a cell: the steps of a turn share it, and end early [default:
    /// 10m in the suites pebblesdb and sifrdb, none in others]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    cell_time: Option<Duration>,

    /// The longest time of the run, of which each cell has its share [default: 100m in the suites
    /// pebblesdb and sifrdb, none in others]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    suite_time: Option<Duration>,

    /// Seed of keys, values and order
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// A file that each turn locks exclusively (`flock`), on a machine with other work that uses the same lock
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,

    /// Directory of results and report [default: bench/results/SUITE]
    #[arg(long)]
    out: Option<PathBuf>,

    /// Directory of the stores during the measurements: on the device that is to be measured [default: in --out]
    #[arg(long)]
    work: Option<PathBuf>,
}

/// Memory of the paper's container.
const PAPER_MEMORY_BYTES: f64 = 16.0 * (1u64 << 30) as f64;

/// Runs the command. Returns true if everything succeeded.
pub fn run(command: Command) -> Result<bool> {
    match command.action {
        Action::Worker => worker::run().map(|()| true),
        Action::Smoke => smoke::run(),
        Action::Reference(args) => reference::run(&args, &mut std::io::stdout().lock()),
        Action::Trace(args) => trace::run(&args).map(|()| true),
        Action::Engines => {
            engine::list().iter().for_each(|line| println!("{line}"));
            Ok(true)
        }
        Action::Figures { suite } => {
            for figure in suite::build(&suite, &Parameters::default(), &[])?.figures {
                println!("{:14}{}", figure.id, figure.title);
            }
            Ok(true)
        }
        Action::Report { dir, html, markdown } => {
            let (run, trials) = runner::read_results(&dir)?;
            let suite = suite_of(&run.plan)?;
            let path = html.unwrap_or_else(|| dir.join("report.html"));
            write_report(&path, &run, &suite, &trials)?;
            if markdown {
                report::print_markdown(&run, &suite, &trials);
            }
            Ok(true)
        }
        Action::Run(args) => {
            let mut plan = plan(&args.suite, args.scale, &args.common)?;
            plan.only = args.only.clone();
            plan.sizes = args.sizes.clone();
            plan.trace_sizes = args.trace_sizes.clone();
            plan.cells = args.cells.clone();
            let suite = suite_of(&plan)?;
            measure(plan, &suite, &args.common)
        }
        Action::Replay { file, common } => {
            let file = file.canonicalize().map_err(on("find", &file))?;
            let mut plan = plan("replay", 1.0, &common)?;
            plan.only = vec![file.display().to_string()];
            let suite = replay(&plan);
            measure(plan, &suite, &common)
        }
    }
}

/// The suite of a run.
fn suite_of(plan: &Plan) -> Result<Suite> {
    if plan.suite == "replay" {
        return Ok(replay(plan));
    }
    let mut suite = suite::build(&plan.suite, &Parameters::from(plan), &plan.only)?;
    let is_wanted =
        |cell: &Cell| plan.cells.is_empty() || plan.cells.iter().any(|part| cell.id.contains(part));
    suite.cells.retain(is_wanted);
    Ok(suite)
}

/// A suite of one trace.
fn replay(plan: &Plan) -> Suite {
    let file = PathBuf::from(plan.only.first().cloned().unwrap_or_default());
    let id = format!("replay/{}", file.file_name().unwrap_or_default().to_string_lossy());
    let steps = vec![Step::Replay { name: "run".into(), file }];
    suite::of_one(Cell::new(id, 0, steps, plan.threads))
}

fn plan(suite: &str, scale: f64, common: &Common) -> Result<Plan> {
    let mut engines: Vec<Spec> = Vec::new();
    for text in &common.engines {
        engines.extend(Spec::parse(text)?);
    }
    engines.iter().try_for_each(engine::check)?;
    let seconds = |asked: Option<Duration>, usual: f64| {
        asked.map_or(suite::is_timed(suite).then_some(usual), |time| Some(time.as_secs_f64()))
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory_bytes = common.memory.unwrap_or((PAPER_MEMORY_BYTES * scale) as u64);
    Ok(Plan {
        suite: suite.into(),
        only: Vec::new(),
        cells: Vec::new(),
        sizes: Vec::new(),
        trace_sizes: Vec::new(),
        engines,
        scale,
        memory_bytes,
        budget_bytes: (memory_bytes as f64 * common.budget) as u64,
        durability: common.durability,
        threads: common.threads.unwrap_or(cores as u64),
        background_threads: common.background_threads.unwrap_or((cores / 2).clamp(1, 4)),
        rounds: common.rounds.unwrap_or(if suite::is_timed(suite) { 1 } else { 3 }),
        seconds_max: common.step.as_secs_f64(),
        writing_seconds_max: common.writing_step.as_secs_f64(),
        cell_seconds_max: seconds(common.cell_time, 600.0),
        suite_seconds_max: seconds(common.suite_time, 6_000.0),
        seed: common.seed,
    })
}

fn measure(plan: Plan, suite: &Suite, common: &Common) -> Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(&plan.suite);
    let out = common.out.clone().unwrap_or(root);
    std::fs::create_dir_all(&out).map_err(on("create", &out))?;
    let work = common.work.clone().unwrap_or_else(|| out.clone()).join("cantle-lab-stores");
    let memory_limit_missing = group::probe().err().map(|failure| failure.0);
    if let Some(why) = &memory_limit_missing {
        eprintln!("no limit of memory is in force: {why}");
    }
    let command: Vec<String> = std::env::args().skip(1).collect();
    let run = Run {
        commands: vec![command.join(" ")],
        revision: runner::revision(),
        machine: runner::describe(&work),
        memory_limit_missing,
        plan,
    };
    let results = Results::open(&out, &run)?;
    let failures =
        Runner::new(&run.plan, suite, work, results, false).locking(common.lock.as_deref())?.run()?;
    let (run, trials) = runner::read_results(&out)?;
    let suite = suite_of(&run.plan)?;
    write_report(&out.join("report.html"), &run, &suite, &trials)?;
    report::print(&run, &suite, &trials);
    Ok(failures == 0)
}

fn write_report(path: &Path, run: &Run, suite: &Suite, trials: &[crate::record::Trial]) -> Result {
    std::fs::write(path, report::html(run, suite, trials)).map_err(on("write", path))?;
    eprintln!("the report is {}", path.display());
    Ok(())
}

fn parse_scale(text: &str) -> std::result::Result<f64, String> {
    let wrong = || format!("{text:?} is no scale: give a share of the paper's size, as in 1/64");
    let (above, below) = text.split_once('/').unwrap_or((text, "1"));
    let share = above.parse::<f64>().map_err(|_| wrong())? / below.parse::<f64>().map_err(|_| wrong())?;
    if share > 0.0 && share <= 1.0 { Ok(share) } else { Err(wrong()) }
}

fn parse_share(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!("{text:?} is no share: give a number above 0 and at most 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_read_as_shares() {
        assert_eq!(parse_scale("1/64"), Ok(1.0 / 64.0));
        assert_eq!(parse_scale("0.5"), Ok(0.5));
        for text in ["", "2", "1/0", "0", "-1/2", "x/y", "1/2/3"] {
            assert!(parse_scale(text).is_err(), "{text}");
        }
    }
}

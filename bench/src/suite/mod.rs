//! Suites: the experiments of a paper by name. A [`Cell`] is work for every engine in turn. A
//! [`Figure`] is a view of cells' results next to the paper's claims, and several figures may use
//! one cell.

mod ablation;
mod beyond;
mod builder;
mod evendb;
pub mod goals;
pub mod measure;
mod parts;
mod pebblesdb;
pub mod rows;
mod sifrdb;
mod yodb;

pub use builder::{Builder, Parameters};

use crate::engine::{Durability, Spec};
use crate::failure::{Failure, Result};
use crate::job::Step;
use cantle_workloads::records::Sizes;
use measure::Measure;
use rows::Row;

/// Work for every engine in turn.
#[derive(Debug, Clone)]
pub struct Cell {
    /// Its name, also in the results.
    pub id: String,
    /// Records of the data set that it starts from.
    pub records: u64,
    /// Sizes of the records.
    pub sizes: Sizes,
    /// The share of the run's memory that it has.
    pub memory: f64,
    /// The space of its file system, in bytes for each byte of its data; `None` if it is the run's.
    pub disk: Option<f64>,
    /// True if the data set is loaded in a random order, and is settled; false if in key order.
    pub is_scattered: bool,
    /// The steps to run.
    pub steps: Vec<Step>,
    /// Number of threads that run them.
    pub threads: u64,
    /// The failure that an acknowledged write survives, if it is not the run's.
    pub durability: Option<Durability>,
    /// The engines, if they are not the run's.
    pub engines: Option<Vec<Spec>>,
    /// True if only Cantle has turns.
    pub is_cantle_alone: bool,
    /// Variants of Cantle that have a turn beside the run's engines.
    pub besides: Vec<Spec>,
    /// Turns of each engine, if fewer than the run's.
    pub rounds_max: u64,
    /// If the store is killed after the steps and the next opening is measured: the state of the
    /// page cache.
    pub reopen: Option<PageCache>,
}

/// The page cache when a killed store is opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageCache {
    /// As the killed process left it.
    Kept,
    /// Empty, as after a restart of the machine.
    Dropped,
}

impl Cell {
    /// A cell of every engine of the run, with the run's durability, and records of the usual sizes.
    pub fn new(id: impl Into<String>, records: u64, steps: Vec<Step>, threads: u64) -> Self {
        Self {
            id: id.into(),
            records,
            sizes: Sizes::default(),
            memory: 1.0,
            disk: None,
            is_scattered: false,
            steps,
            threads,
            durability: None,
            engines: None,
            is_cantle_alone: false,
            besides: Vec::new(),
            rounds_max: u64::MAX,
            reopen: None,
        }
    }

    /// The name of the data set that it starts from: cells with the same one share its copies.
    pub fn data_set(&self) -> String {
        let order = if self.is_scattered { "-scattered" } else { "" };
        // A store depends on the memory that it was loaded with.
        let memory = if self.memory == 1.0 { String::new() } else { format!("-memory-{}", self.memory) };
        format!("{}-{}{order}{memory}", self.records, self.sizes)
    }

    /// The cell's part of a limit of time for a whole suite.
    pub fn weight(&self) -> u32 {
        // A data set has to be loaded, copied and read again for each turn.
        let copies = u32::from(self.records > 0) * 2;
        copies + self.steps.iter().map(|step| step.weight(self.sizes)).sum::<u32>()
    }

    /// The engines that have a turn at the cell, of those of the run. If the cell names its own, those
    /// that are variants of one of the run's.
    pub fn engines_of(&self, run: &[Spec]) -> Vec<Spec> {
        let takes_part = |own: &&Spec| {
            run.iter().any(|engine| engine.name == own.name || engine.is_cantle() && own.is_cantle())
        };
        if let Some(own) = &self.engines {
            return own.iter().filter(takes_part).cloned().collect();
        }
        let mut engines = run.to_vec();
        engines.retain(|engine| engine.is_cantle() || !self.is_cantle_alone);
        for own in self.besides.iter().filter(takes_part) {
            if !engines.contains(own) {
                engines.push(own.clone());
            }
        }
        engines
    }

    /// Approximate number of bytes of user data in the initial data set, or in the data that it
    /// writes.
    pub fn data_bytes(&self) -> u64 {
        let made = self.steps.iter().map(|step| match step {
            Step::Ingest { events, .. } => *events,
            Step::Fill { records, round: 0, .. } => *records,
            Step::Run { workload, operations, .. } if workload.is_insert() => *operations,
            _ => 0,
        });
        (self.records + made.sum::<u64>()) * self.sizes.record_bytes()
    }
}

/// A figure or table of a paper.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Its name on the command line: `figure-6a`.
    pub id: &'static str,
    /// Its title.
    pub title: String,
    /// The paper's claim about it.
    pub claim: &'static str,
    /// Differences between this experiment and the paper's.
    pub note: &'static str,
    /// Its parts.
    pub panels: Vec<Panel>,
}

/// One plot or table.
#[derive(Debug, Clone)]
pub struct Panel {
    /// The heading.
    pub title: String,
    /// The quantity on the horizontal axis.
    pub across: &'static str,
    /// The kind of presentation.
    pub view: View,
    /// The lines or rows.
    pub series: Vec<Series>,
}

/// The kind of presentation of a panel.
#[derive(Debug, Clone, PartialEq)]
pub enum View {
    /// A line per series and engine.
    Lines(Measure),
    /// Operations per second over time; one point per series.
    Timeline,
    /// Bytes on disk over time; one point per series.
    Space,
    /// Shares of gets by the component that served them, per point; Cantle only.
    GetsServed,
    /// Average time of a get by the component of the files that served it, per point; Cantle only.
    GetTimes,
    /// Rows are engines, columns these measures; one point per series.
    Table(Vec<Measure>),
    /// Rows of text that need no measurement.
    Computed(Vec<Vec<String>>),
}

/// Points of one line.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name; the engine's is put before it.
    pub name: String,
    /// Points in the order of the horizontal axis.
    pub points: Vec<Point>,
}

/// One cell's step on a line.
#[derive(Debug, Clone)]
pub struct Point {
    /// Its label on the axis.
    pub label: String,
    /// The cell's name.
    pub cell: String,
    /// The step's name.
    pub step: &'static str,
    /// The engine, if the line is not one engine's.
    pub engine: Option<Spec>,
}

/// A suite for a run.
#[derive(Debug, Clone, Default)]
pub struct Suite {
    /// The cells to run, in the order of the data sets.
    pub cells: Vec<Cell>,
    /// The figures to show.
    pub figures: Vec<Figure>,
    /// The table of goals, if the suite has one.
    pub rows: Vec<Row>,
}

/// The name of the suite of PebblesDB's paper.
pub const PEBBLESDB: &str = "pebblesdb";

/// The name of the suite of SifrDB's paper.
pub const SIFRDB: &str = "sifrdb";

/// True for a suite whose time is limited: data shrinks before cells go.
pub fn is_timed(name: &str) -> bool {
    [PEBBLESDB, SIFRDB].contains(&name)
}

/// Names of suites.
pub const NAMES: [&str; 3] = ["evendb", PEBBLESDB, SIFRDB];

/// The suite of this name; `only` picks figures by their names or the beginnings of them, all if it
/// is empty.
pub fn build(name: &str, parameters: &Parameters, only: &[String]) -> Result<Suite> {
    let mut builder = Builder::new(parameters.clone());
    match name {
        "evendb" => {
            evendb::add(&mut builder);
            yodb::add(&mut builder);
            ablation::add(&mut builder);
            beyond::add(&mut builder);
        }
        PEBBLESDB => pebblesdb::add(&mut builder),
        SIFRDB => sifrdb::add(&mut builder),
        _ => return Err(Failure(format!("there is no suite {name:?}; there are {}", NAMES.join(", ")))),
    }
    for wanted in only {
        if !builder.figures().any(|figure| figure.starts_with(wanted.as_str())) {
            let names: Vec<&str> = builder.figures().collect();
            return Err(Failure(format!("there is no figure {wanted:?}; there are {}", names.join(", "))));
        }
    }
    Ok(builder.finish(only))
}

/// A suite of one cell, whose one step is named `run`.
pub fn of_one(cell: Cell) -> Suite {
    let columns = vec![
        Measure::Throughput,
        Measure::WorstP9999,
        Measure::Longest,
        Measure::WriteAmplification,
        Measure::ReadAmplification,
        Measure::ProcessorPerOperation,
        Measure::Resident,
    ];
    let series = |cell: &Cell| vec![builder::series("", vec![builder::point("", cell.id.clone(), "run")])];
    let panels = vec![
        builder::panel("", "", View::Table(columns), series(&cell)),
        builder::panel("throughput over time", "seconds", View::Timeline, series(&cell)),
        builder::panel("bytes on disk", "seconds", View::Space, series(&cell)),
    ];
    let figure = Figure { id: "replay", title: cell.id.clone(), claim: "", note: "", panels };
    Suite { cells: vec![cell], figures: vec![figure], rows: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn whole() -> Suite {
        build("evendb", &Parameters::default(), &[]).unwrap()
    }

    #[test]
    fn every_figure_of_the_papers_is_there_and_its_cells_exist() {
        let suite = whole();
        let ids: HashSet<&str> = suite.figures.iter().map(|figure| figure.id).collect();
        assert_eq!(ids.len(), suite.figures.len(), "a name twice");
        for id in
            ["figure-3", "figure-4", "figure-5", "figure-7", "figure-8", "figure-9", "figure-10", "figure-11"]
        {
            assert!(ids.contains(id), "{id}");
        }
        for letter in "abcdefghi".chars() {
            assert!(ids.contains(format!("figure-6{letter}").as_str()), "figure 6{letter}");
        }
        for id in ["figure-12", "table-2", "table-3", "table-4", "yodb-table-2", "yodb-table-3", "ablation"] {
            assert!(ids.contains(id), "{id}");
        }
        let cells: HashSet<&str> = suite.cells.iter().map(|cell| cell.id.as_str()).collect();
        assert_eq!(cells.len(), suite.cells.len(), "a cell twice");
        let points = suite.figures.iter().flat_map(|figure| &figure.panels).flat_map(|panel| &panel.series);
        for point in points.flat_map(|series| &series.points) {
            assert!(cells.contains(point.cell.as_str()), "{}", point.cell);
            let cell = suite.cells.iter().find(|cell| cell.id == point.cell).unwrap();
            assert!(
                cell.reopen.is_some() || cell.steps.iter().any(|step| step.name() == Some(point.step)),
                "{} has no step {}",
                cell.id,
                point.step
            );
        }
    }

    #[test]
    fn the_suites_of_pebblesdb_and_sifrdb_have_their_figures_and_every_row_a_cell_with_its_steps() {
        let of_pebblesdb = [
            "figure-4a",
            "figure-4b",
            "figure-4c",
            "figure-4d",
            "table-1",
            "figure-4g",
            "figure-5",
            "figure-6",
            "empty-guards",
            "table-2",
            "space",
        ];
        let of_sifrdb =
            ["figure-2", "table-1", "figure-8", "figure-9", "figure-9a", "figure-9d", "figure-12"];
        check_suite(PEBBLESDB, &of_pebblesdb);
        check_suite(SIFRDB, &of_sifrdb);
        let figures = build(PEBBLESDB, &Parameters::default(), &["table-2".into()]).unwrap();
        assert!(figures.rows.len() == 2 && figures.cells.len() == 1, "{:?}", figures.rows);
    }

    fn check_suite(name: &str, wanted: &[&str]) {
        let suite = build(name, &Parameters::default(), &[]).unwrap();
        let ids: HashSet<&str> = suite.figures.iter().map(|figure| figure.id).collect();
        assert!(wanted.iter().all(|id| ids.contains(id)), "{ids:?}");
        let cells: HashSet<&str> = suite.cells.iter().map(|cell| cell.id.as_str()).collect();
        assert_eq!(cells.len(), suite.cells.len(), "a cell twice");
        for row in &suite.rows {
            let cell = suite.cells.iter().find(|cell| cell.id == row.cell).unwrap();
            for wanted in row.quantity.steps() {
                let is_there = cell.steps.iter().any(|step| step.name() == Some(wanted));
                assert!(is_there || cell.reopen.is_some(), "{}: {wanted}", row.title);
            }
            assert!(!row.goals.is_empty() && !row.musts.is_empty(), "{}", row.title);
        }
    }

    #[test]
    fn data_is_three_to_four_limits_of_memory_and_thirty_where_there_is_little() {
        let scale = 1.0 / 64.0;
        let suite = build(PEBBLESDB, &Parameters { scale, ..Parameters::default() }, &[]).unwrap();
        let memory = 256.0 * (1u64 << 20) as f64;
        let times = |id: &str| {
            let cell = suite.cells.iter().find(|cell| cell.id == id).unwrap();
            cell.data_bytes() as f64 / (memory * cell.memory)
        };
        for id in ["fill-random/16-128", "fill-random/16-1024", "fill-sequential/16-128", "ycsb-A/16-1024"] {
            assert!((3.0..4.0).contains(&times(id)), "{id}: {}", times(id));
        }
        for id in ["little-memory/16-128", "little-memory/16-1024"] {
            assert!((times(id) - 30.0).abs() < 0.1, "{id}: {}", times(id));
        }
        assert!(times("cached/16-1024") < 0.3);
        let share = |memory_bytes| {
            let suite = build(PEBBLESDB, &Parameters { memory_bytes, ..Parameters::default() }, &[]).unwrap();
            suite.cells.iter().find(|cell| cell.id == "little-memory/16-128").unwrap().memory
        };
        assert_eq!([1 << 30, 256 << 20, 64 << 20].map(share), [0.125, 0.5, 1.0]);
    }

    #[test]
    fn other_layouts_take_part_where_a_cell_names_them_and_rivals_stay_away_where_it_says_so() {
        let suite = build(PEBBLESDB, &Parameters::default(), &[]).unwrap();
        let run = [Spec::plain("cantle").with("layout", "flsm"), Spec::plain("rocksdb-tuned")];
        let engines = |id: &str| {
            let cell = suite.cells.iter().find(|cell| cell.id == id).unwrap();
            cell.engines_of(&run).iter().map(Spec::to_string).collect::<Vec<_>>()
        };
        assert_eq!(engines("fill-random/16-128"), ["cantle:layout=flsm", "rocksdb-tuned"]);
        assert_eq!(engines("ycsb-A/16-1024"), ["cantle:layout=flsm", "rocksdb-tuned", "cantle"]);
        assert_eq!(engines("delays/16-1024"), ["cantle:layout=flsm"]);
        let without = Cell { besides: vec![Spec::plain("cantle")], ..suite.cells[0].clone() };
        assert_eq!(without.engines_of(&run[1..]), &run[1..], "no Cantle, no variants");
    }

    #[test]
    fn scale_divides_data_and_operations_alike_and_nothing_else() {
        let cell = |scale| {
            let parameters = Parameters { scale, ..Parameters::default() };
            let suite = build("evendb", &parameters, &["figure-6a".into()]).unwrap();
            suite.cells.into_iter().find(|cell| cell.id.ends_with("/64GB")).unwrap()
        };
        let (large, small) = (cell(1.0 / 16.0), cell(1.0 / 64.0));
        assert!((large.records as f64 / small.records as f64 - 4.0).abs() < 0.001);
        match (&large.steps[..], &small.steps[..]) {
            ([Step::Run { operations: many, .. }], [Step::Run { operations: few, .. }]) => {
                assert_eq!(*many, few * 4)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_what_is_wanted_is_run() {
        let few = build("evendb", &Parameters::default(), &["figure-6d".into()]).unwrap();
        assert!(few.figures.len() == 1 && few.cells.len() < whole().cells.len() / 4);
        assert!(few.cells.iter().all(|cell| cell.id.starts_with("C/")));
        assert!(build("evendb", &Parameters::default(), &["figure-99".into()]).is_err());
        assert!(build("tpc", &Parameters::default(), &[]).is_err());
    }
}

//! Life after recovery (`doors/life`) in a process of its own, on real files: a process is killed
//! while it heavily uses the store after the kill before.

use super::child::{Part, Role, Running, name_of, say, say_places};
use crate::doors::life::{Model, Tuning, Usage, Watch, life_of, read_all, writes_of};
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Lives of a round: each order of keys, with small chunks and with chunks of the default size.
const LIVES: u64 = 8;
/// Number of kills on one store.
const CYCLES: u64 = 3;
/// A process reports the number of its writes after every 16 writes.
const SAYS: u64 = 16;
/// Latest time of the kill, in milliseconds after the opening. It takes about 300 ms until
/// maintenance has loaded anything.
const MILLIS_MAX: u64 = 1500;
/// The environment variable with the minimum and maximum number of writes that the process must
/// find.
const FROM: &str = "CANTLE_FAULTS_LIFE_FROM";

pub fn enter(visit: &Visit) {
    if let Some(case) = &visit.case {
        let seed = case.parse().unwrap_or_else(|_| panic!("{case:?} is no case, as 7 is one"));
        visit.rounds().for_each(|_| checked(visit, seed));
        return;
    }
    for seed in visit.rounds() {
        // The low byte of a seed is its turn: every fifth has another order of keys and another
        // length of values.
        let base = seed & !0xff;
        let seeds: Vec<u64> = (0..LIVES).map(|turn| base + turn * 5).collect();
        visit.each_of(4, &seeds, |&seed| checked(visit, seed));
    }
}

fn checked(visit: &Visit, seed: u64) {
    let durability = Tuning::of(seed, visit.layout).durability;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let part = Part { role: Role::Live, path, layout: visit.layout, durability, seed };
    live(visit, &part).unwrap_or_else(|found| {
        let (plan, tuning) = life_of(seed, visit.layout);
        panic!("{found}\nCANTLE_TEST_CASE={seed}, {}, {plan:?}, {tuning:?}", name_of(durability));
    });
    visit.count("lives", 1);
}

/// The minimum and the maximum number of writes that the next process must find.
type Promised = (u64, u64);

fn live(visit: &Visit, part: &Part) -> Result<(), String> {
    let mut rng = Rng::new(part.seed);
    let mut promised = (0, 0);
    for cycle in 0..CYCLES {
        let (low, high) = promised;
        let mut command = part.command(&visit.program);
        command.env(FROM, format!("{low} {high}"));
        let mut child = Running::start(&mut command);
        // Three of four are killed after the opening, the others at any moment.
        if rng.below(4) > 0 {
            child.wait_for("opened");
        }
        std::thread::sleep(Duration::from_millis(rng.below(MILLIS_MAX)));
        let ended = child.kill();
        let context = |found| format!("cycle {cycle}: {found}");
        if let Some(failure) = ended.lines.iter().find(|line| line.starts_with("failed")) {
            return Err(context(format!("{failure}; {}", ended.errors.trim())));
        }
        if let Some(found) = ended.is_by_itself() {
            return Err(context(found));
        }
        promised = hear(&ended.lines, promised, part.durability);
        visit.count("processes killed", 1);
        ended.count_places(visit);
    }
    let (plan, _) = life_of(part.seed, part.layout);
    for opening in ["once", "twice"] {
        let context = |found| format!("opened {opening}: {found}");
        let db = open(part, &mut rng).map_err(|error| context(format!("cannot open: {error}")))?;
        let found = read_all(&db).and_then(|pairs| Model::find(&plan, &pairs, promised.0..=promised.1));
        promised = found.map(|model| (model.writes, model.writes)).map_err(context)?;
        let report = db.verify().map_err(|error| context(format!("cannot verify: {error}")))?;
        if !report.is_ok() {
            return Err(context(format!("{report:?}")));
        }
        db.close().map_err(|error| context(format!("cannot close: {error}")))?;
        visit.count("stores checked", 1);
    }
    Ok(())
}

/// The promises of a process with this output.
fn hear(lines: &[String], before: Promised, durability: Durability) -> Promised {
    let (mut low, mut high) = before;
    for line in lines {
        let Some((word, count)) = line.split_once(' ') else { continue };
        let Ok(count) = count.parse::<u64>() else { continue };
        match word {
            "opened" => (low, high) = (if durability == Durability::Buffered { low } else { count }, count),
            "done" if durability != Durability::Buffered => low = count,
            "synced" => low = count,
            _ => {}
        }
        // Includes a write that it made but could not report.
        high = high.max(count);
    }
    let is_open = lines.iter().any(|line| line.starts_with("opened"));
    (low, if is_open { high + SAYS + 1 } else { high })
}

fn open(part: &Part, rng: &mut Rng) -> cantle::Result<Db> {
    let options = Tuning::of(part.seed, part.layout).options(rng);
    options.io_uring(part.seed % 2 == 1).open(&part.path)
}

/// Reports the progress of the writes.
struct Saying(AtomicU64);

impl Watch for Saying {
    fn begun(&self) {}

    fn finished(&self, _is_durable: bool) {
        let done = self.0.fetch_add(1, SeqCst) + 1;
        if done.is_multiple_of(SAYS) {
            say(format!("done {done}"));
        }
    }

    fn all_is_durable(&self) {
        say(format!("synced {}", self.0.load(SeqCst)));
    }
}

/// The work of the child.
pub fn play(part: &Part) {
    if let Err(found) = use_for_ever(part) {
        say(format!("failed: {}", found.replace('\n', "; ")));
    }
}

fn use_for_ever(part: &Part) -> Result<(), String> {
    let promised = std::env::var(FROM).ok();
    let promised = promised.as_deref().and_then(|text| text.split_once(' '));
    let promised = promised.and_then(|(low, high)| Some(low.parse::<u64>().ok()?..=high.parse().ok()?));
    let promised = promised.ok_or("nobody said what was promised")?;
    let (plan, _) = life_of(part.seed, part.layout);
    let mut rng = Rng::new(part.seed ^ promised.start() << 8 ^ 1);
    let db = open(part, &mut rng).map_err(|error| format!("cannot open: {error}"))?;
    let is_first = *promised.end() == 0;
    let mut model = Model::find(&plan, &read_all(&db)?, promised)?;
    say(format!("opened {}", model.writes));
    let saying = Saying(model.writes.into());
    let usage = Usage { db: &db, plan: &plan, durability: part.durability, watch: &saying };
    if is_first {
        // The first process is killed when the store is full, after few reads.
        let writes = writes_of(&plan, 0, &mut rng);
        usage.fill(&mut model, writes)?;
    }
    loop {
        let writes = writes_of(&plan, 1, &mut rng);
        usage.run(&mut model, &mut rng, writes)?;
        say_places(&db);
    }
}

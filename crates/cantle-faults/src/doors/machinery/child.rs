//! The child processes that are broken: their arguments and their output.

use super::phases::{self, Phase};
use super::{life, remount, resident, script, stores, writer};
use crate::setup::{Setup, has_layout};
use crate::visit::Visit;
use cantle::vfs::Vfs;
use cantle::{Db, Durability, LayoutKind};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const DURABILITIES: [Durability; 3] = [Durability::Process, Durability::Sync, Durability::Buffered];

pub fn name_of(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Buffered => "buffered",
        _ => "process",
    }
}

pub fn durability_of(name: &str) -> Option<Durability> {
    DURABILITIES.into_iter().find(|durability| name_of(*durability) == name)
}

/// The task of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Writes from several threads until it is killed.
    Write,
    /// Runs the script.
    Script,
    /// Uses an existing store heavily until it is killed.
    Live,
    /// Opens the store and closes it.
    Open,
    /// Writes one pair after another until it is killed, with one sync in between.
    Fill,
    /// Works in a tree of directories, and changes its own working directory.
    Paths,
    /// Uses several stores with a low limit of open files.
    Stores,
    /// Fills a store and reports how much memory that took.
    Resident,
}

/// A role, and the store that it uses.
#[derive(Debug, Clone)]
pub struct Part {
    pub role: Role,
    pub path: PathBuf,
    pub layout: LayoutKind,
    pub durability: Durability,
    /// Determines how the store is opened.
    pub seed: u64,
}

impl Role {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Write, "write"),
        (Self::Script, "script"),
        (Self::Live, "live"),
        (Self::Open, "open"),
        (Self::Fill, "fill"),
        (Self::Paths, "paths"),
        (Self::Stores, "stores"),
        (Self::Resident, "resident"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(role, _)| *role == self).map_or("", |(_, name)| name)
    }
}

impl Part {
    fn arguments(&self) -> [String; 5] {
        [
            self.role.name().to_owned(),
            name_of(self.durability).to_owned(),
            self.seed.to_string(),
            self.layout.name().to_owned(),
            self.path.display().to_string(),
        ]
    }

    fn parse(arguments: &[String]) -> Option<Self> {
        let [role, durability, seed, layout, path] = arguments else { return None };
        Some(Self {
            role: Role::ALL.into_iter().find(|(_, name)| name == role)?.0,
            durability: durability_of(durability)?,
            seed: seed.parse().ok()?,
            layout: layout.parse().ok()?,
            path: path.into(),
        })
    }

    pub fn setup(&self) -> Setup {
        let setup = match self.role {
            Role::Write => writer::setup(self.seed, self.durability),
            _ => script::setup(self.durability),
        };
        Setup { layout: self.layout, ..setup }
    }

    /// True if the store asks the kernel for a ring. The durabilities whose stores do so change from seed
    /// to seed: for seed 0 it is `sync` alone.
    pub fn asks_for_ring(&self) -> bool {
        let place = DURABILITIES.iter().position(|durability| *durability == self.durability);
        (self.seed / 4 + place.unwrap_or(0) as u64) % 2 == 1
    }

    pub fn open(&self) -> cantle::Result<Db> {
        self.open_on(Arc::new(cantle::vfs::StdVfs))
    }

    pub fn open_on(&self, vfs: Arc<dyn Vfs>) -> cantle::Result<Db> {
        let options = self.setup().options(vfs);
        // A large budget has a large write buffer, much of which is never touched.
        let budget = [4 << 20, 64 << 20][(self.seed / 2 % 2) as usize];
        let db = options.memory_budget(budget).io_uring(self.asks_for_ring()).open(&self.path)?;
        assert!(has_layout(&db, self.layout), "the store has another layout");
        Ok(db)
    }

    /// The command that runs the part in a child.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("child").args(self.arguments());
        command
    }
}

/// Prints a line to the parent, without buffering.
pub fn say(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    // The parent is gone, so the child ends.
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        std::process::exit(4);
    }
}

/// Prints the number of places that the store has read together, by a ring and by hints.
pub fn say_places(db: &Db) {
    let stats = db.stats();
    say(format!("places {} {}", stats.reads_by_io_uring, stats.reads_by_hints));
}

/// Runs the part that the arguments describe. For `main`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let part = Part::parse(arguments).ok_or_else(|| format!("no part to play: {arguments:?}"))?;
    // The child's standard input ends when the parent does.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(4);
    });
    match part.role {
        Role::Write => writer::play(&part),
        Role::Script => script::play(&part),
        Role::Live => life::play(&part),
        Role::Open => match open_and_close(&part) {
            Ok(()) => say("closed"),
            Err(error) => say(format!("failed {error}")),
        },
        Role::Fill => remount::play(&part),
        Role::Stores => stores::play(&part),
        Role::Resident => resident::play(&part),
        Role::Paths => say(format!("states {}", crate::doors::paths::play(&part))),
    }
    Ok(())
}

fn open_and_close(part: &Part) -> cantle::Result<()> {
    let opening = Phase::Open.enter();
    let db = part.open_on(phases::vfs())?;
    drop(opening);
    db.close()
}

/// A running child; killed when this is dropped.
pub struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<std::thread::JoinHandle<()>>,
    errors: Option<std::thread::JoinHandle<String>>,
}

/// The exit of a child.
pub struct Ended {
    pub status: ExitStatus,
    /// Standard output of the child, complete lines only.
    pub lines: Vec<String>,
    /// Standard error of the child.
    pub errors: String,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut complaints = child.stderr.take().unwrap();
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let heard = lines.clone();
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            // An incomplete line is ignored.
            while matches!(output.read_line(&mut line), Ok(1..)) && line.ends_with('\n') {
                heard.lock().unwrap().push(line.trim_end().to_owned());
                line.clear();
            }
        });
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = complaints.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Self { child, lines, reader: Some(reader), errors: Some(errors) }
    }

    /// The lines received so far.
    pub fn heard(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for a line with this beginning; `false` if the child ends without it.
    pub fn wait_for(&mut self, beginning: &str) -> bool {
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            let ended = self.reader.as_ref().is_none_or(|reader| reader.is_finished());
            if self.lines.lock().unwrap().iter().any(|line| line.starts_with(beginning)) {
                return true;
            }
            if ended {
                return false;
            }
            assert!(Instant::now() < patience, "a child hangs before it says {beginning:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Stops the child, or lets it continue.
    pub fn hold(&self, is_held: bool) -> Result<(), String> {
        let signal = if is_held { "-STOP" } else { "-CONT" };
        super::disks::run("kill", &[signal, &self.child.id().to_string()]).map(drop)
    }

    pub fn kill(mut self) -> Ended {
        let _ = self.child.kill();
        self.end()
    }

    /// Waits until the child ends by itself.
    pub fn wait(mut self, patience: Duration) -> Ended {
        let until = Instant::now() + patience;
        while self.child.try_wait().is_ok_and(|status| status.is_none()) {
            if Instant::now() >= until {
                let _ = self.child.kill();
                let ended = self.end();
                panic!("a child hangs after {:?}", ended.lines.last());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.end()
    }

    /// Waits at most `patience` for the child to end by itself, then kills it.
    pub fn wait_or_kill(mut self, patience: Duration) -> Ended {
        let until = Instant::now() + patience;
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.kill()
    }

    fn end(&mut self) -> Ended {
        let status = self.child.wait().unwrap();
        self.child.stdin.take();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        let errors = self.errors.take().map(|errors| errors.join().unwrap()).unwrap_or_default();
        Ended { status, lines: std::mem::take(&mut self.lines.lock().unwrap()), errors }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// Counts the places that the child has read together, as [`say_places`] printed them last.
    pub fn count_places(&self, visit: &Visit) {
        let places = self.lines.iter().rev().find_map(|line| line.strip_prefix("places ")?.split_once(' '));
        if let Some((by_rings, by_hints)) = places {
            visit.count("places read by rings", by_rings.parse().unwrap_or(0));
            visit.count("places read by hints", by_hints.parse().unwrap_or(0));
        }
    }

    /// The reason if the program itself failed, rather than being killed: a panic, an abort, an
    /// invalid memory access.
    pub fn is_by_itself(&self) -> Option<String> {
        use std::os::unix::process::ExitStatusExt;
        const ABRT: i32 = 6;
        const BUS: i32 = 7;
        const SEGV: i32 = 11;
        let died = matches!(self.status.signal(), Some(ABRT | BUS | SEGV))
            || matches!(self.status.code(), Some(101 | 2 | 134 | 135 | 139));
        (died || self.errors.contains("panicked"))
            .then(|| format!("the process died of itself: {}; {}", self.status, self.errors.trim()))
    }
}

//! Directories are renamed, replaced and destroyed under open stores, the working directory
//! changes, openings race, and handles are left after closing. A world has some directories, each
//! with at most one store. Random operations on it are compared with a model that identifies
//! directories by themselves, not by their paths: after any change of paths, each store holds the
//! pairs that were written through its own handles. Some worlds are in memory, where lock files can
//! be removed between the opening and the lock. Others are in a process of their own on a real file
//! system, where the working directory changes.

mod race;
mod world;

use super::machinery::{Part, Role};
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::Durability;
use cantle::vfs::MemVfs;
use std::process::Stdio;
use world::{Place, World};

/// Operations in a world.
const STEPS: u64 = 120;

pub fn enter(visit: &Visit) {
    for seed in visit.rounds() {
        let mut rng = Rng::new(seed);
        for _ in 0..6 {
            let seed = rng.next();
            in_memory(visit, seed);
            if visit.is_over() {
                return;
            }
        }
        on_disk(visit, rng.next());
        race::run(visit, &mut rng);
    }
}

fn in_memory(visit: &Visit, seed: u64) {
    let mut world = World::new(Place::Memory(MemVfs::new()), visit.layout, seed);
    (0..STEPS).for_each(|_| world.step());
    world.check_crashes();
    visit.count("states", world.check());
    visit.count("worlds in memory", 1);
}

/// The working directory belongs to a process, so a child process runs this world.
fn on_disk(visit: &Visit, seed: u64) {
    let root = crate::files::dir_in_memory().unwrap_or_else(|error| panic!("{error}"));
    let part = Part {
        role: Role::Paths,
        path: root.path().to_path_buf(),
        layout: visit.layout,
        durability: Durability::Process,
        seed,
    };
    let mut command = part.command(&visit.program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("no child: {error}"));
    // The pipe stays open until the child is done, as the child ends with it.
    let stdin = child.stdin.take();
    let output = child.wait_with_output().unwrap_or_else(|error| panic!("no child: {error}"));
    drop(stdin);
    let (out, complaints) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let done = out.lines().rev().find_map(|line| line.strip_prefix("states ")?.parse().ok());
    let Some(states) = done else { panic!("seed {seed} on disk: {out}{complaints}") };
    visit.count("states", states);
    visit.count("worlds on disk", 1);
}

/// Runs a world, in a process that does nothing else. Returns the number of states of stores that
/// were checked.
pub fn play(part: &Part) -> u64 {
    let mut world = World::new(Place::Disk(part.path.clone()), part.layout, part.seed);
    (0..STEPS).for_each(|_| world.step());
    world.check()
}

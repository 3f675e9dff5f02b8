//! The library's folders only import lower ones, without cycles: `FLOORS` lists the folders, from
//! the lowest up.
//!
//! Every path that begins with `crate`, `super` or `self` counts, in imports, re-exports,
//! expressions and macros. A path through a re-export is followed to
//! its origin, and counts as well. Tests do not count: they may open a whole store.

#[path = "arrows/paths.rs"]
mod paths;

use paths::{Arrow, Sources};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The folders, from the lowest up. Folders in one line do not import each other.
const FLOORS: &[&[&str]] = &[
    &["canary", "sync"],
    &["types", "filter"],
    &["memory", "vfs", "key", "maintenance", "read_ahead"],
    &["format", "merge"],
    &["mvcc", "records", "block"],
    &["files", "cache"],
    &["manifest", "journal", "fetch"],
    &["table"],
    &["log"],
    &["run"],
    &["budget"],
    &["substrate"],
    &["layout"],
    &["lsm"],
    &["chunk", "flsm", "forest", "tiny"],
    &["layouts"],
    &["db"],
    &["repair", "stats", "typed"],
];

/// Subfolders, from the lowest up, of folders that have more than one; "" are the files of the
/// folder itself.
const ROOMS: &[(&str, &[&str])] =
    &[("log", &["op", "tail", "index", "", "read"]), ("chunk", &["munk", "", "residency", "rebalance"])];

/// The imports of these files that break the rules.
fn faults(sources: &Sources, floors: &[&[&str]], rooms: &[(&str, &[&str])]) -> Vec<String> {
    let floor_of: BTreeMap<&str, usize> = floors
        .iter()
        .enumerate()
        .flat_map(|(floor, names)| names.iter().map(move |name| (*name, floor)))
        .collect();
    let mut faults: BTreeSet<String> = BTreeSet::new();
    let folders: BTreeSet<String> = sources.modules().filter_map(|module| module.first().cloned()).collect();
    for folder in folders.iter().filter(|folder| !floor_of.contains_key(folder.as_str())) {
        faults.insert(format!("{folder} is on no floor"));
    }
    for name in floor_of.keys().filter(|name| !folders.contains(**name)) {
        faults.insert(format!("there is no {name}"));
    }
    for Arrow { file, from, to, text } in sources.arrows() {
        let ([folder, inner @ ..], [target, target_inner @ ..]) = (&from[..], &to[..]) else { continue };
        if folder != target {
            let floors = [folder, target].map(|name| floor_of.get(name.as_str()));
            if let [Some(own), Some(other)] = floors
                && own <= other
            {
                faults.insert(format!("{file}: {text}: {folder} is not above {target}"));
            }
            continue;
        }
        let Some((_, order)) = rooms.iter().find(|(name, _)| name == folder) else { continue };
        // The folder's own `mod.rs` declares all of them.
        if inner.is_empty() {
            continue;
        }
        let room = |path: &[String]| {
            let name = path.first().map_or("", String::as_str);
            order
                .iter()
                .position(|room| *room == name)
                .or_else(|| order.iter().position(|room| room.is_empty()))
        };
        if let (Some(own), Some(other)) = (room(inner), room(target_inner))
            && own < other
        {
            faults.insert(format!("{file}: {text}: upwards within {folder}"));
        }
    }
    faults.into_iter().collect()
}

#[test]
fn folders_import_downwards_only() {
    let sources = Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let faults = faults(&sources, FLOORS, ROOMS);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(sources.arrows().count() > 1000, "the paths are found");
}

/// Checks two floors and a folder with two subfolders; `text` is in a file of the lower floor.
fn small_house(lower: &str) -> Vec<String> {
    let sources = Sources::of([
        ("lib.rs", "mod down; mod up; pub use up::made::Thing;"),
        ("up/mod.rs", "pub mod made; use crate::down::low::room;"),
        ("up/made.rs", "pub struct Thing; pub fn make() {}"),
        ("down/mod.rs", "pub mod low; pub mod high; pub use high::tower::Tower;"),
        ("down/low/mod.rs", "pub mod room; pub mod lower;"),
        ("down/low/lower.rs", "pub fn lowest() {}"),
        ("down/low/room.rs", lower),
        ("down/high/mod.rs", "pub mod tower;"),
        ("down/high/tower.rs", "pub struct Tower; use super::super::low::room;"),
    ]);
    faults(&sources, &[&["down"], &["up"]], &[("down", &["low", "", "high"])])
}

#[test]
fn a_path_upwards_of_each_kind_is_found() {
    for upward in [
        "use crate::up::made::Thing;",
        "use crate::{up::made::Thing, down::low};",
        "use crate::{down::low::{self, lower}, up::{made}};",
        "use super::super::super::up::made;",
        "use self::super::super::super::up;",
        "pub use crate::up::made::Thing;",
        "pub(crate) use crate::up::made::{Thing as Renamed};",
        "fn f() { crate::up::made::make() }",
        "fn f(thing: &super::super::super::up::made::Thing) {}",
        "type T = Vec<crate::up::made::Thing>;",
        "impl Trait for crate::up::made::Thing {}",
        "const X: fn() = if true { || crate::up::made::make() } else { loop {} };",
        "macro_rules! m { () => { $crate::up::made::make() }; }",
        "fn f() { println!(\"{:?}\", crate::up::made::make()) }",
        "mod inner { use super::super::super::super::up::made; }",
        "#[cfg(not(test))] use crate::up::made;",
        "use crate::Thing;",
        // Within the folder.
        "use crate::down::high::tower;",
        "use super::super::high::tower::Tower;",
        "use crate::down::Tower;",
    ] {
        let faults = small_house(upward);
        assert_eq!(faults.len(), 1, "{upward}: {faults:?}");
        assert!(faults[0].starts_with("down/low/room.rs: "), "{faults:?}");
    }
}

#[test]
fn a_path_downwards_and_what_is_no_path_are_none() {
    for downward in [
        "use crate::down::low::lower;",
        "use super::lower::{self, lowest};",
        "fn f() { self::super::lower::lowest() }",
        "// use crate::up::made;",
        "/// See [`crate::up::made`].\nfn f() {}",
        "const TEXT: &str = \"crate::up::made\";",
        "#[cfg(test)] mod tests { use crate::up::made; }",
        "#[cfg(all(test, unix))] use crate::up::made;\nfn f() {}",
        "#[cfg(test)] fn only_there() { crate::up::made::make() }",
        "#[test] fn t() { crate::up::made::make() }",
        "use std::collections::BTreeMap; use other::up::made;",
    ] {
        assert_eq!(small_house(downward), Vec::<String>::new(), "{downward}");
    }
}

#[test]
fn a_folder_without_a_floor_and_a_floor_without_a_folder_are_found() {
    let sources = Sources::of([("lib.rs", "mod here;"), ("here/mod.rs", "")]);
    assert_eq!(faults(&sources, &[&["gone"]], &[]), ["here is on no floor", "there is no gone"]);
}

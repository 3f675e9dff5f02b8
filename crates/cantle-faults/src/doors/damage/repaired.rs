//! Repairs a damaged store, and compares the saved pairs with the intact ones.

use super::harm::Harm;
use super::rules::{Rule, rule};
use super::shapes::{Home, Shape};
use crate::files::{Kind, names, read};
use crate::sealed::HEADER_BYTES;
use crate::setup::{STORE, has_layout};
use crate::workload::{Pairs, State};
use cantle::repair::{RepairReport, ReturnedKeys, UncertainKeys};
use cantle::vfs::MemVfs;
use cantle::{Db, Error};
use std::collections::BTreeMap;
use std::ops::RangeBounds;

const TARGET: &str = "/saved";

/// The result of a repair.
#[derive(Debug, Default)]
pub struct Saved {
    /// Number of pairs whose bytes are intact: all of them were saved.
    pub intact: u64,
    /// Number of pairs that were not saved, or saved with an older value, and were reported.
    pub lost: u64,
}

/// Returns the finding as an error.
pub fn check(shape: &Shape, harm: &Harm) -> Result<Saved, String> {
    let vfs = harm.inflict(shape);
    let damaged = files(&vfs);
    let repair = || Db::repair(STORE, TARGET, shape.options(&vfs).memory_budget(4 << 20));
    let report = repair().map_err(|error| format!("cannot be repaired: {error}"))?;
    if files(&vfs) != damaged {
        return Err("the repair changed the damaged store".into());
    }
    let db = shape.options(&vfs).create_if_missing(false).open(TARGET);
    let db = db.map_err(|error| format!("what was repaired does not open: {error}"))?;
    let verified = db.verify().map_err(|error| format!("what was repaired: {error}"))?;
    if !verified.is_ok() || !has_layout(&db, shape.layout) {
        return Err(format!("what was repaired: {verified:?}"));
    }
    let found = contents(&db).map_err(|error| format!("what was repaired: {error}"))?;
    let mut saved = Saved::default();
    let mut wrong = Vec::new();
    for (name, pairs) in &found {
        made_up(shape, name, pairs, &mut wrong);
    }
    for (name, pairs) in shape.now() {
        let nothing = Pairs::new();
        let (as_named, found) = space_of(&found, name).unwrap_or((name, &nothing));
        for (key, value) in pairs {
            let is_intact = shape.homes.get(&(name.clone(), key.clone())).is_some_and(|homes| {
                !homes.is_empty() && homes.iter().all(|home| is_as_it_was(shape, &damaged, home))
            });
            saved.intact += u64::from(is_intact);
            if found.get(key) == Some(value) {
                continue;
            }
            saved.lost += 1;
            let text = String::from_utf8_lossy(key);
            if hides_whose(harm) {
                continue;
            }
            // After a hole in a journal it is unknown if the journal continues.
            if is_intact
                && !harm.hits(Kind::Journal)
                && matches!(rule(shape, harm), Rule::Now)
                && !is_buffered(shape, harm, name, key)
            {
                wrong.push(format!("{name} {text} is intact and not saved"));
            } else if !is_told(&report, as_named, key) && matches!(rule(shape, harm), Rule::Now) {
                wrong.push(format!("{name} {text} is not saved, and not listed"));
            }
        }
        let back = found.keys().filter(|key| !pairs.contains_key(*key));
        for key in back.filter(|key| !is_told(&report, as_named, key)) {
            let covers = |named: &ReturnedKeys| named.keyspace == as_named && named.keys.contains(key);
            let is_noted = report.may_return.iter().any(covers);
            if !is_noted && !hides_whose(harm) && matches!(rule(shape, harm), Rule::Now) {
                wrong.push(format!("{name} {} is back, and not listed", String::from_utf8_lossy(key)));
            }
        }
    }
    if wrong.is_empty() {
        return Ok(saved);
    }
    let all = wrong.len();
    wrong.truncate(4);
    let (damage, left_out) = (report.damage.len(), report.left_out.len());
    Err(format!("repaired: {all}: {}; {damage} damages, {left_out} files left out", wrong.join("; ")))
}

fn files(vfs: &MemVfs) -> BTreeMap<String, Vec<u8>> {
    let files = names(vfs).into_iter().filter(|name| name != "LOCK");
    files.map(|name| (name.clone(), read(vfs, &name))).collect()
}

fn contents(db: &Db) -> cantle::Result<State> {
    let mut state = State::new();
    for name in db.keyspaces()? {
        let space = db.keyspace(&name)?;
        let pairs = space.range(..).map(|pair| pair.map(|(key, value)| (key.to_vec(), value[..].into())));
        state.insert(name, pairs.collect::<cantle::Result<Pairs>>()?);
    }
    Ok(state)
}

/// The name of a keyspace before its name was lost: the shapes' keyspaces are numbered in the order
/// of their names.
fn known_name(name: &str) -> &str {
    match name {
        "lost-1" => "default",
        "lost-2" => "second",
        name => name,
    }
}

fn space_of<'a>(found: &'a State, name: &str) -> Option<(&'a str, &'a Pairs)> {
    let named = found.get_key_value(name).into_iter();
    let mut named =
        named.chain(found.iter().filter(|(other, _)| *other != name && known_name(other) == name));
    named.next().map(|(name, pairs)| (&name[..], pairs))
}

/// Each value must be one that its key once had.
fn made_up(shape: &Shape, name: &str, pairs: &Pairs, wrong: &mut Vec<String>) {
    let name = known_name(name);
    for (key, value) in pairs {
        // Files whose header and manifest are lost may belong to any keyspace.
        let is_of = |space: &str| space == name || name == "lost-0";
        let ever = shape.all.iter().chain(&shape.since).flatten();
        let ever = ever.filter(|(space, _)| is_of(space)).map(|(_, pairs)| pairs);
        if !{ ever }.any(|pairs| pairs.get(key) == Some(value)) {
            wrong.push(format!("{name} {} never had this value", String::from_utf8_lossy(key)));
        }
    }
}

/// True if a pair is in a write buffer that is damaged.
fn is_buffered(shape: &Shape, harm: &Harm, name: &str, key: &[u8]) -> bool {
    let homes = shape.homes.get(&(name.to_owned(), key.to_vec()));
    harm.hits(Kind::WriteBuffer)
        && homes.is_some_and(|homes| homes.iter().any(|home| Kind::of(&home.file) == Kind::WriteBuffer))
}

/// Headers and the manifest identify files. If blocks of these are swapped, two files are damaged
/// at once, and neither may determine the keyspace or the place of its pairs. Their pairs go to a
/// keyspace of their own, or are lost.
fn hides_whose(harm: &Harm) -> bool {
    let Harm::Swap { at, other_at, .. } = harm else { return false };
    harm.hits(Kind::Manifest) || (*at).min(*other_at) < HEADER_BYTES as u64
}

fn is_as_it_was(shape: &Shape, damaged: &BTreeMap<String, Vec<u8>>, home: &Home) -> bool {
    let range = home.from..home.to;
    let was = &shape.bytes[&home.file][range.clone()];
    damaged.get(&home.file).and_then(|bytes| bytes.get(range)) == Some(was)
}

fn is_told(report: &RepairReport, space: &str, key: &[u8]) -> bool {
    let covers = |range: &UncertainKeys| range.keyspace == space && range.keys.contains(&key.to_vec());
    // The keys of a lost journal record are unknown: its offset is reported, and may concern any
    // key.
    let is_journal = |error: &Error| matches!(error, Error::Corruption { path, .. } if Kind::of(&path.to_string_lossy()) == Kind::Journal);
    report.uncertain.iter().any(covers)
        || report.left_out.iter().any(|left| left.loses)
        || report.damage.iter().any(is_journal)
}

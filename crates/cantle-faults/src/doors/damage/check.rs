//! Opens a damaged store, reads everything in every way, and compares it with the right data.

use super::blame::Blame;
use super::harm::Harm;
use super::rules::{Rule, is_told, rule};
use super::shapes::Shape;
use crate::setup::{STORE, has_layout};
use crate::workload::{KEYS, Pairs, State, difference, key};
use cantle::{Db, Error, Keyspace, Report};
use std::sync::Arc;

/// The place where a damage was detected.
pub enum Noticed {
    /// The store cannot be opened.
    Refused,
    /// `verify` reports it.
    Reported,
    No {
        /// True if the data read differ from the right data, as a rule allows.
        changed: bool,
    },
}

/// Results of reading everything: whole keyspaces, and single pairs of those that cannot be read
/// completely.
#[derive(Default)]
struct Read {
    state: State,
    /// Keyspaces of which only some pairs could be read.
    partial: Vec<String>,
    errors: Vec<Error>,
}

/// Returns the finding as an error.
pub fn check(shape: &Shape, harm: &Harm) -> Result<Noticed, String> {
    let vfs = harm.inflict(shape);
    let blame = Blame::of(shape, harm, &vfs);
    // A writable opening repairs the effects of crashes on disk before reads; a read-only one does
    // so in memory.
    let read_only = harm.to_string().bytes().fold(0u8, u8::wrapping_add) % 8 > 0;
    let db = match shape.options(&vfs).read_only(read_only).create_if_missing(false).open(STORE) {
        Err(error) => {
            blame.fits(&error)?;
            return Ok(Noticed::Refused);
        }
        Ok(db) => db,
    };
    if !has_layout(&db, shape.layout) {
        return Err("the store has another layout".into());
    }
    let report = verified(&db, &blame)?;
    let read = read_everything(&db, &blame)?;
    if let Some(error) = read.errors.first()
        && report.is_ok()
    {
        return Err(format!("a read fails, and verify finds nothing: {error}"));
    }
    holds(shape, &rule(shape, harm), &read)?;
    let changed = read.partial.is_empty() && read.state != *shape.now();
    if changed && report.is_ok() && is_told(shape, harm) {
        return Err("what was acknowledged is gone, and verify does not tell".into());
    }
    if !read_only {
        // It may fail, but only with the errors that reads may have.
        for done in [db.put("after", "damage"), db.sync(), db.close()] {
            done.or_else(|error| blame.fits(&error))?;
        }
    }
    Ok(if report.is_ok() { Noticed::No { changed } } else { Noticed::Reported })
}

fn verified(db: &Db, blame: &Blame<'_>) -> Result<Report, String> {
    let report = db.verify().map_err(|error| format!("verify failed: {error}"))?;
    report.damage.iter().try_for_each(|error| blame.fits(error))?;
    Ok(report)
}

fn read_everything(db: &Db, blame: &Blame<'_>) -> Result<Read, String> {
    let mut read = Read::default();
    for name in db.keyspaces().map_err(|error| error.to_string())? {
        let space = db.keyspace(&name).map_err(|error| error.to_string())?;
        read_space(&space, &name, blame, &mut read)?;
    }
    Ok(read)
}

fn read_space(space: &Keyspace, name: &str, blame: &Blame<'_>, read: &mut Read) -> Result<(), String> {
    let mut pairs = Pairs::new();
    let mut whole = true;
    let mut fail = |error: Error| {
        blame.fits(&error)?;
        read.errors.push(error);
        Ok::<_, String>(())
    };
    for back in [false, true] {
        let (range, mut last) = (space.range(..), None::<Vec<u8>>);
        let range: Box<dyn Iterator<Item = _>> = if back { Box::new(range.rev()) } else { Box::new(range) };
        let mut walked = Pairs::new();
        let mut ended = true;
        for pair in range {
            match pair {
                Ok((key, value)) => {
                    if last.as_ref().is_some_and(|last| (key[..] <= last[..]) != back) {
                        return Err(format!("a scan went from {last:?} to {key:?}"));
                    }
                    last = Some(key.to_vec());
                    walked.insert(key.to_vec(), value[..].into());
                }
                Err(error) => {
                    fail(error)?;
                    ended = false;
                }
            }
        }
        if pairs.iter().any(|(key, value)| walked.get(key).is_some_and(|other| other != value)) {
            return Err("two scans disagree".into());
        }
        if ended && whole && back && pairs != walked {
            return Err("a scan and its reverse disagree".into());
        }
        whole &= ended;
        pairs.extend(walked);
    }
    for n in (0..KEYS).filter(|n| *n < 48 || n % 16 == 0) {
        match space.get(key(n)) {
            Ok(Some(value)) => {
                let value: Arc<[u8]> = value[..].into();
                let scanned = pairs.insert(key(n), value.clone());
                if scanned.is_none() && whole || scanned.is_some_and(|scanned| scanned != value) {
                    return Err(format!("get and range disagree on key {n}"));
                }
            }
            Ok(None) if pairs.contains_key(&key(n)) => return Err(format!("get misses key {n}")),
            Ok(None) => {}
            Err(error) => fail(error)?,
        }
    }
    if !whole {
        read.partial.push(name.to_owned());
    }
    read.state.insert(name.to_owned(), pairs);
    Ok(())
}

/// Checks that the read data are right.
fn holds(shape: &Shape, rule: &Rule<'_>, read: &Read) -> Result<(), String> {
    let now = std::slice::from_ref(shape.now());
    let wrong = |what: &str| Err(format!("{what}{}", difference(&read.state, shape.now())));
    match rule {
        Rule::Moment(states) if read.partial.is_empty() => {
            if states.contains(&read.state) {
                Ok(())
            } else {
                wrong("a state that never was:")
            }
        }
        Rule::Moment(states) | Rule::Pairs(states) if pairs_of(states, read) => Ok(()),
        Rule::Now if pairs_of(now, read) => Ok(()),
        _ => wrong("what was read is wrong:"),
    }
}

/// True if each keyspace and pair that is present or missing is so in one of the states.
fn pairs_of(states: &[State], read: &Read) -> bool {
    let spaces: std::collections::BTreeSet<&String> =
        states.iter().flat_map(State::keys).chain(read.state.keys()).collect();
    spaces.into_iter().all(|space| {
        let known: Vec<Option<&Pairs>> = states.iter().map(|state| state.get(space)).collect();
        let Some(found) = read.state.get(space) else { return known.contains(&None) };
        let keys: std::collections::BTreeSet<&Vec<u8>> =
            known.iter().flatten().flat_map(|pairs| pairs.keys()).chain(found.keys()).collect();
        known.iter().any(Option::is_some)
            && keys.into_iter().all(|key| match found.get(key) {
                None if read.partial.contains(space) => true,
                value => known.iter().any(|pairs| pairs.is_some_and(|pairs| pairs.get(key) == value)),
            })
    })
}

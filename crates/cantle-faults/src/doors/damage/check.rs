//! Opens a damaged store, reads everything in every way, and holds it against what was there.

use super::harm::Harm;
use super::rules::{Rule, is_told, rule};
use super::shapes::Shape;
use crate::files::Kind;
use crate::setup::STORE;
use crate::workload::{KEYS, Pairs, State, difference, key};
use cantle::{Db, Error, Keyspace, KeyspaceOptions, Report};
use std::path::Path;
use std::sync::Arc;

/// Who noticed.
pub enum Noticed {
    /// The store does not open.
    Refused,
    /// `verify` says so.
    Reported,
    No {
        /// What was read is not what was there, and may not be.
        changed: bool,
    },
}

/// What a reader of everything found: whole keyspaces, and pairs of those that cannot be read whole.
#[derive(Default)]
struct Read {
    state: State,
    /// Of these keyspaces only some pairs could be read.
    partial: Vec<String>,
    errors: Vec<Error>,
}

/// Fails with what is wrong.
pub fn check(shape: &Shape, harm: &Harm) -> Result<Noticed, String> {
    let vfs = harm.inflict(shape);
    // Who writes settles what crashes left before he reads; who only reads does so in memory.
    let read_only = harm.to_string().bytes().fold(0u8, u8::wrapping_add) % 8 > 0;
    let db = match Shape::options(&vfs).read_only(read_only).create_if_missing(false).open(STORE) {
        Err(error) => {
            named(&error, harm)?;
            return Ok(Noticed::Refused);
        }
        Ok(db) => db,
    };
    let report = verified(&db, harm)?;
    let read = read_everything(&db, harm)?;
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
        // It may fail, but not otherwise than reads do.
        for done in [db.put("after", "damage"), db.sync(), db.close()] {
            done.or_else(|error| named(&error, harm))?;
        }
    }
    Ok(if report.is_ok() { Noticed::No { changed } } else { Noticed::Reported })
}

/// An error must be of damage, and name what is damaged.
fn named(error: &Error, harm: &Harm) -> Result<(), String> {
    let path = match error {
        Error::Corruption { path, .. } | Error::UnsupportedFormat { path, .. } => path,
        // A store without anything in it is none.
        Error::NotFound { path, .. } if matches!(harm, Harm::Missing { .. }) => path,
        // A damage that was found while something was being written.
        Error::ReadOnly { .. } => return Ok(()),
        other => return Err(format!("an error of another kind: {other}")),
    };
    let name = path.strip_prefix(STORE).unwrap_or(Path::new("?")).to_string_lossy();
    // Whose files are not those of the manifest, the manifest cannot know.
    let fits = harm.concerns(&name) || harm.hits(Kind::Manifest);
    if fits { Ok(()) } else { Err(format!("laid at another's door: {error}")) }
}

fn verified(db: &Db, harm: &Harm) -> Result<Report, String> {
    let report = db.verify().map_err(|error| format!("verify failed: {error}"))?;
    report.damage.iter().try_for_each(|error| named(error, harm))?;
    Ok(report)
}

fn read_everything(db: &Db, harm: &Harm) -> Result<Read, String> {
    let mut read = Read::default();
    for name in db.keyspaces().map_err(|error| error.to_string())? {
        let space = db.keyspace(&name, KeyspaceOptions::new()).map_err(|error| error.to_string())?;
        read_space(&space, &name, harm, &mut read)?;
    }
    Ok(read)
}

fn read_space(space: &Keyspace, name: &str, harm: &Harm, read: &mut Read) -> Result<(), String> {
    let mut pairs = Pairs::new();
    let mut whole = true;
    let mut fail = |error: Error| {
        named(&error, harm)?;
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

/// Whether what was read is right.
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

/// Whether each keyspace and pair that is there, or is missing, is so in one of the states.
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

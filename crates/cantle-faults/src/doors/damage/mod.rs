//! Files of a store are damaged: truncated, bits flipped, zeroed, swapped, replaced, doubled,
//! removed. A read afterwards returns the right data, or an error that names the file and the
//! offset, and `verify` reports the damage; `silence` lists the exceptions. A repair saves all
//! intact data. Damage in one record of a log affects its key alone (`alone`).
//!
//! *Right* data are those of the store before the damage. There are exceptions, if the format
//! cannot tell damage from the effects of a crash; `rules` lists them, and `docs/format` has the
//! reasons. All of them are older values of the same keys, never bytes that were not written there.

mod alone;
mod blame;
mod check;
mod harm;
mod plans;
mod repaired;
mod rules;
pub mod shapes;
mod silence;

use crate::files::Kind;
use crate::memory;
use crate::visit::{Visit, words_of};
use crate::watchdog::Watchdog;
use check::{Noticed, check};
use harm::Harm;
use shapes::Shape;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Maximum numbers of findings of one kind that are named, and of lines of the first.
const FINDINGS_SHOWN: usize = 6;
const FINDING_LINES: usize = 4;
/// One of 16 damaged stores is repaired as well; in the short form a fourth of that.
const REPAIRED_ONE_IN: u32 = 16;
/// Maximum size of one allocation, in bytes. It is more than any store of the lab needs: files have
/// less than 64 KiB, or 16 MiB in `alone`.
const ALLOCATION_BYTES_MAX: usize = 32 << 20;

pub fn enter(visit: &Visit) {
    let watchdog = Watchdog::start("damage");
    for (index, seed) in visit.rounds().enumerate() {
        if visit.case.is_none() {
            alone::enter(visit, seed);
        }
        let shapes = shapes::all(visit.layout, seed);
        let cases = plans::all(
            &shapes,
            seed,
            if visit.is_long() && index == 0 { None } else { Some(visit.is_long()) },
        );
        let chosen: Vec<_> = match &visit.case {
            Some(name) => cases
                .into_iter()
                .filter(|(shape, harm)| fits(&name_of(&shapes[*shape], harm), name))
                .collect(),
            None => cases,
        };
        assert!(!chosen.is_empty(), "there is no case {:?} with seed {}", visit.case, visit.seed);
        let unnoticed = Mutex::new(BTreeMap::new());
        let found = Mutex::new(BTreeMap::<_, Vec<String>>::new());
        visit.each(&chosen, |(shape, harm)| {
            let shape = &shapes[*shape];
            if let Err(wrong) = one(visit, &watchdog, shape, harm, &unnoticed) {
                let alike = (shape.name, harm.plural(), Kind::of(harm.file()).plural());
                found.lock().unwrap().entry(alike).or_default().push(wrong);
            }
        });
        let found = found.into_inner().unwrap();
        let shown: Vec<String> = found
            .iter()
            .map(|((shape, what, of), all)| {
                format!("{shape}, {what} of {of}: {}, such as\n{}", all.len(), shown(all))
            })
            .collect();
        assert!(found.is_empty(), "damage that was not borne:\n{}", shown.join("\n"));
        for ((why, changed), cases) in unnoticed.into_inner().unwrap() {
            let outcome = if changed { "older values" } else { "nothing lost" };
            visit.count(interned(format!("unnoticed, {outcome}: {why}")), cases);
        }
    }
}

/// The first of several findings, and the names of some others.
fn shown(findings: &[String]) -> String {
    let first: Vec<&str> = findings[0].lines().take(FINDING_LINES).collect();
    let others = findings.iter().skip(1).map(|text| text.split(": ").next().unwrap_or_default());
    let others: Vec<&str> = others.step_by(findings.len().div_ceil(FINDINGS_SHOWN)).collect();
    format!("  {}\n  also: {}", first.join("\n  "), others.join(", "))
}

/// True if a case has this name; a `*` matches any text.
fn fits(name: &str, wanted: &str) -> bool {
    let Some((beginning, rest)) = wanted.split_once('*') else { return name == wanted };
    let Some(name) = name.strip_prefix(beginning) else { return false };
    (0..=name.len()).any(|at| name.is_char_boundary(at) && fits(&name[at..], rest))
}

/// Undetected damages, counted by the reason why that is allowed and by whether older values were
/// read.
type Unnoticed = Mutex<BTreeMap<(&'static str, bool), u64>>;

fn name_of(shape: &Shape, harm: &Harm) -> String {
    format!("{}/{harm}", shape.name)
}

/// Does one damage; returns the finding as an error.
fn one(
    visit: &Visit,
    watchdog: &Watchdog,
    shape: &Shape,
    harm: &Harm,
    unnoticed: &Unnoticed,
) -> Result<(), String> {
    let name = name_of(shape, harm);
    let checked = watchdog.watch(&name, || catch_unwind(AssertUnwindSafe(|| check(shape, harm))));
    // Every n-th, chosen by its name, so that a case run alone does the same.
    let digest = name.bytes().fold(0u32, |digest, byte| digest.wrapping_mul(31).wrapping_add(byte.into()));
    let one_in = REPAIRED_ONE_IN * if visit.is_long() { 1 } else { 4 };
    let checked = match checked {
        Ok(Ok(found)) if visit.case.is_some() || digest.is_multiple_of(one_in) => {
            let repair = || repaired::check(shape, harm);
            watchdog.watch(&name, || catch_unwind(AssertUnwindSafe(repair))).map(|repaired| {
                let saved = repaired?;
                visit.count("stores repaired", 1);
                visit.count("intact pairs saved by repairs", saved.intact);
                visit.count("pairs lost to damage, and listed by repairs", saved.lost);
                Ok(found)
            })
        }
        checked => checked,
    };
    let found = match checked {
        Ok(found) => found.map_err(|wrong| format!("case {name}: {wrong}"))?,
        Err(panic) => {
            let text = words_of(&*panic);
            return Err(format!("case {name}: panicked: {text}"));
        }
    };
    let largest = memory::take_largest();
    if largest > ALLOCATION_BYTES_MAX {
        return Err(format!("case {name}, or one beside it: {largest} bytes were asked for at once"));
    }
    let of = |what: &str| interned(format!("{what} of {}", Kind::of(harm.file()).plural()));
    visit.count(of("damages"), 1);
    if matches!(harm, Harm::Flip { .. }) {
        visit.count(of(harm.plural()), 1);
    }
    visit.count(harm.plural(), 1);
    match found {
        Noticed::Refused => visit.count("stores refused", 1),
        Noticed::Reported => visit.count("stores with damage reported", 1),
        Noticed::No { changed } => {
            if changed {
                visit.count("stores that fell back to older values", 1);
            }
            if harm.is_damage(shape) {
                let Some(why) = silence::excuse(shape, harm) else {
                    return Err(format!(
                        "case {name}: nobody noticed, {}",
                        if changed { "older" } else { "same" }
                    ));
                };
                *unnoticed.lock().unwrap().entry((why, changed)).or_default() += 1;
            }
        }
    }
    Ok(())
}

/// The tally needs static names; there are few.
fn interned(name: String) -> &'static str {
    static NAMES: Mutex<Option<HashMap<String, &'static str>>> = Mutex::new(None);
    let mut names = NAMES.lock().unwrap();
    names.get_or_insert_default().entry(name.clone()).or_insert_with(|| name.leak())
}

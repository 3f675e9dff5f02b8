//! The step that kills: a child writes and acknowledges, is killed with SIGKILL half way, and
//! everything that it acknowledged must be there.
//!
//! The child writes bookings one after the other into a keyspace of their own, in an order that is
//! not key order, and says the number of each on its standard output once the store has accepted
//! it. It ends with its standard input, so that it never outlives the tour.

use super::design::Design;
use super::narrate::Narrator;
use crate::failure::{Failure, Outcome};
use crate::measure::display::{bytes, count, duration};
use crate::measure::failed;
use crate::measure::generator::{Permutation, Random};
use cantle::{Db, Keyspace, key};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const KEYSPACE: &str = "bookings";

/// Bookings that the child is to write. It runs ahead of what the parent has read by what a pipe
/// holds: 64 KiB of acknowledgements of at least 6 bytes are under 11,000, so that a kill at half
/// finds it writing.
pub(crate) const BOOKINGS: u64 = 100_000;

/// The order of writing, the same for parent and child.
const SEED: u64 = 0xca57;

/// A booking: what the child writes, and what the parent expects of its number alone.
struct Bookings {
    order: Permutation,
}

impl Bookings {
    fn new() -> Self {
        Self { order: Permutation::new(BOOKINGS, SEED) }
    }

    fn key(&self, number: u64) -> Vec<u8> {
        key::encode(&("booking", self.order.apply(number) as i64))
    }

    /// The number, then 40 to 120 random bytes.
    fn value(number: u64) -> Vec<u8> {
        let mut random = Random::stream(SEED, number);
        let mut value = vec![0; 48 + random.below(81) as usize];
        random.fill(&mut value[8..]);
        value[..8].copy_from_slice(&number.to_le_bytes());
        value
    }

    /// The number that a stored pair claims and proves to be: key and value are what was written.
    fn number(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        let number = u64::from_le_bytes(*value.first_chunk()?);
        (number < BOOKINGS && key == self.key(number) && value == Self::value(number)).then_some(number)
    }
}

fn keyspace(db: &Db, design: &Design) -> Outcome<Keyspace> {
    Ok(db.keyspace_with(KEYSPACE, design.keyspace_options())?)
}

/// The writing process.
pub(crate) fn child(db: &Db, design: &Design) -> Outcome {
    let bookings = keyspace(db, design)?;
    let plan = Bookings::new();
    // Line-buffered: an acknowledgement is on its way before the next booking is written.
    let mut out = std::io::stdout().lock();
    for number in 0..BOOKINGS {
        bookings.put(plan.key(number), Bookings::value(number))?;
        writeln!(out, "{number}")?;
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// A child that is killed at the latest when this is dropped.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        // It may have ended already; there is nothing to do about a failure.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the child on the store in `dir`, which must be closed here, and kills it when it has
/// acknowledged half of its bookings. Returns how many it had acknowledged by then.
pub(crate) fn write_and_kill(narrator: &mut Narrator, design: &Design, dir: &Path) -> Outcome<u64> {
    let program = std::env::current_exe().map_err(failed("find", Path::new("this program")))?;
    let mut command = Command::new(&program);
    command.args(["tour", "--layout", &design.text, "--writer"]).arg(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut writer = Writer(command.spawn().map_err(failed("start", &program))?);
    let Some(output) = writer.0.stdout.take() else {
        return Err(Failure::Failed("the writing process has no output".into()));
    };
    let pid = writer.0.id();
    let (mut acknowledged, mut killed) = (0, false);
    // After the kill, what the pipe still holds was acknowledged too.
    for line in BufReader::new(output).lines() {
        let line = line.map_err(failed("read from", &program))?;
        if line.parse() != Ok(acknowledged) {
            return Err(Failure::Failed(format!("the writing process said {line:?}, not {acknowledged}")));
        }
        acknowledged += 1;
        if !killed && acknowledged * 2 >= BOOKINGS {
            writer.0.kill().map_err(failed("kill", &program))?;
            killed = true;
        }
    }
    writer.0.wait().map_err(failed("wait for", &program))?;
    if !killed {
        return Err(Failure::Failed(
            "the writing process ended before it was killed; see its message above".into(),
        ));
    }
    narrator.code(&format!("$ kill -9 {pid}"))?;
    let left = count(BOOKINGS - acknowledged);
    narrator.say(&format!(
        "killed after it had acknowledged {} bookings, {left} before its end",
        count(acknowledged)
    ))?;
    Ok(acknowledged)
}

/// Checks the reopened store against what was acknowledged.
pub(crate) fn check(
    narrator: &mut Narrator,
    db: &Db,
    design: &Design,
    acknowledged: u64,
    open: Duration,
) -> Outcome {
    let stats = db.stats();
    let log_bytes = stats.keyspaces.iter().map(|keyspace| keyspace.log_bytes).sum();
    narrator.say(&format!(
        "opened again in {}: none of the {} in logs is read {}",
        duration(open),
        bytes(log_bytes),
        design.first_read()
    ))?;
    let plan = Bookings::new();
    let started = Instant::now();
    let mut there = vec![false; BOOKINGS as usize];
    let (mut foreign, mut ascending) = (0u64, true);
    let mut last: Option<cantle::Key> = None;
    for pair in keyspace(db, design)?.range(..) {
        let (key, value) = pair?;
        ascending &= last.is_none_or(|last| last < key);
        match plan.number(&key, &value) {
            Some(number) => there[number as usize] = true,
            None => foreign += 1,
        }
        last = Some(key);
    }
    let took = started.elapsed();
    let kept = there.iter().take_while(|&&there| there).count() as u64;
    let later = there.iter().skip(kept as usize).filter(|&&there| there).count();
    narrator.check(
        kept >= acknowledged && foreign == 0 && ascending,
        &format!(
            "all {} acknowledged bookings are there, in key order, byte for byte (read in {})",
            count(acknowledged),
            duration(took)
        ),
    )?;
    // The one write that the kill interrupted may have been accepted and not yet acknowledged.
    narrator.check(
        later == 0 && kept <= acknowledged + 1,
        "nothing else is: what was written is there from the first to the last, with no gap",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_booking_is_known_by_its_bytes_only() {
        let plan = Bookings::new();
        for number in [0, 1, BOOKINGS - 1] {
            let (key, value) = (plan.key(number), Bookings::value(number));
            assert_eq!(plan.number(&key, &value), Some(number));
            let mut torn = value.clone();
            torn[20] ^= 1;
            assert_eq!(plan.number(&key, &torn), None);
            assert_eq!(plan.number(&key, &value[..40]), None);
            assert_eq!(plan.number(&plan.key((number + 1) % BOOKINGS), &value), None);
        }
        assert_eq!(plan.number(b"", b""), None);
        assert_eq!(plan.number(b"", &u64::MAX.to_le_bytes()), None);
    }

    #[test]
    fn bookings_are_not_written_in_key_order() {
        let plan = Bookings::new();
        assert!((1..100).filter(|&n| plan.key(n) < plan.key(n - 1)).count() > 25);
    }
}

//! The pauses between two runs of a transaction that met a conflict.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Maximum length of the first pause, about the duration of a commit. The maximum doubles with each
/// pause, as in `Db::transact`.
const PAUSE_FIRST: Duration = Duration::from_micros(20);
/// Maximum length of every pause.
const PAUSE_LONGEST: Duration = Duration::from_millis(5);

/// Pauses of random length, so that transactions that conflicted do not conflict again.
#[derive(Debug)]
pub struct Pauses {
    longest: Duration,
}

impl Default for Pauses {
    /// Begins with the shortest pause.
    fn default() -> Self {
        Self { longest: PAUSE_FIRST }
    }
}

impl Pauses {
    /// The length of the next pause.
    pub fn next_pause(&mut self) -> Duration {
        // Each `RandomState` has other keys.
        let share = RandomState::new().hash_one(0u8) % 1024;
        let pause = self.longest * share as u32 / 1024;
        self.longest = (self.longest * 2).min(PAUSE_LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_longest_and_differ() {
        let mut pauses = Pauses::default();
        assert!(pauses.next_pause() <= PAUSE_FIRST);
        let later: Vec<Duration> = (0..200).map(|_| pauses.next_pause()).collect();
        assert!(later.iter().all(|pause| *pause <= PAUSE_LONGEST));
        assert!(later.iter().any(|pause| *pause > PAUSE_LONGEST / 8));
        assert!(later[100..].windows(2).any(|two| two[0] != two[1]));
    }
}

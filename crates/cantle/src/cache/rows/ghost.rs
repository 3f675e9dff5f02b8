//! Hashes of the rows that were evicted unread not long ago: a row that is asked for again soon
//! should have stayed.
//!
//! The array holds two bytes of each hash, at the place that the rest of the hash chooses, and a
//! later hash replaces an earlier one. Thus it forgets by itself, about as fast as it is long. It
//! mistakes one row in 65,000 for another, which does no harm.

#[derive(Default)]
pub(super) struct Ghost {
    marks: Box<[u16]>,
}

impl Ghost {
    /// Sets the size for this number of rows. Forgets everything if the size changes.
    pub(super) fn resize(&mut self, rows: usize) {
        let marks = if rows == 0 { 0 } else { rows.next_power_of_two() };
        if marks != self.marks.len() {
            self.marks = vec![0; marks].into();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.marks)
    }

    /// The place of a hash's mark, and the mark. 0 is no mark.
    fn mark(&mut self, hash: u32) -> Option<(&mut u16, u16)> {
        let mixed = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (mixed >> 16) as usize & self.marks.len().wrapping_sub(1);
        Some((self.marks.get_mut(place)?, ((mixed >> 48) as u16).max(1)))
    }

    pub(super) fn add(&mut self, hash: u32) {
        if let Some((place, mark)) = self.mark(hash) {
            *place = mark;
        }
    }

    /// Removes a hash; true if it was there.
    pub(super) fn take(&mut self, hash: u32) -> bool {
        let Some((place, mark)) = self.mark(hash) else { return false };
        let was_there = *place == mark;
        if was_there {
            *place = 0;
        }
        was_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_last_is_remembered_once() {
        let mut ghost = Ghost::default();
        ghost.add(1);
        assert!(!ghost.take(1), "it has no room");
        ghost.resize(1000);
        assert_eq!(ghost.bytes(), 2048);
        let hash = |n: u32| n.wrapping_mul(0x85eb_ca6b);
        (0..10_000).for_each(|n| ghost.add(hash(n)));
        let remembered = (0..10_000).filter(|&n| ghost.take(hash(n))).collect::<Vec<_>>();
        assert!((800..=1024).contains(&remembered.len()), "{}", remembered.len());
        assert!(remembered.iter().filter(|&&n| n >= 9_000).count() > 500);
        assert!((0..10_000).all(|n| !ghost.take(hash(n))));
    }
}

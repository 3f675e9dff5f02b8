//! What was let go unread not long ago: who is asked for again soon after had deserved to stay.
//!
//! Two bytes of each hash, in the place that the rest of it chooses; a later one takes the place of an earlier. So it
//! forgets by itself, about as fast as it is long, and mistakes one row in 65,000 for another, which does no harm.

#[derive(Default)]
pub(super) struct Ghost {
    marks: Box<[u16]>,
}

impl Ghost {
    /// For so many rows: forgets everything if that is another number than before.
    pub(super) fn resize(&mut self, rows: usize) {
        let marks = if rows == 0 { 0 } else { rows.next_power_of_two() };
        if marks != self.marks.len() {
            self.marks = vec![0; marks].into();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.marks)
    }

    /// Where a hash is marked, and how. 0 marks nothing.
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

    /// Whether it was there; it no longer is.
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

//! Shrinks a list of operations that fails.

use std::cell::Cell;
use std::sync::Once;

/// Leaves out operations: all after the failure, then runs of a half, a quarter, … of the
/// operations, down to single ones. `fails` runs some operations and returns the one at which they
/// failed; it is called at most `attempts` times. Returns `None` if they do not fail again, as the
/// timing of background work differs.
pub fn shrink(
    operations: Vec<u64>,
    attempts: usize,
    mut fails: impl FnMut(&[u64]) -> Option<u64>,
) -> Option<Vec<u64>> {
    let mut left = attempts;
    let mut try_with = |operations: &[u64]| {
        left = left.checked_sub(1)?;
        let at = fails(operations)?;
        Some(operations.iter().copied().filter(|&operation| operation <= at).collect::<Vec<u64>>())
    };
    let mut shortest = (0..3).find_map(|_| try_with(&operations))?;
    let mut run = shortest.len().div_ceil(2);
    while run > 0 {
        let (mut from, mut found) = (0, false);
        while from < shortest.len() {
            let until = (from + run).min(shortest.len());
            let without = [&shortest[..from], &shortest[until..]].concat();
            match try_with(&without) {
                Some(fewer) => (shortest, found) = (fewer, true),
                None => from = until,
            }
        }
        // Operations that were needed before may not be needed any more.
        run = if run == 1 && found { 1 } else { run / 2 };
    }
    Some(shortest)
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs a function without printing panics of this thread.
pub fn quietly<T>(run: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                usual(panic);
            }
        }));
    });
    QUIET.set(true);
    let result = run();
    QUIET.set(false);
    result
}

#[cfg(test)]
mod tests {
    use super::shrink;

    /// Fails at 40 if 17 and 23 came before, and at 90 in any case.
    fn fails(operations: &[u64]) -> Option<u64> {
        let has = |operation| operations.contains(&operation);
        (has(17) && has(23) && has(40)).then_some(40).or(has(90).then_some(90))
    }

    #[test]
    fn what_does_not_matter_is_left_out() {
        let shortest = shrink((1..=80).collect(), 1000, fails);
        assert_eq!(shortest, Some(vec![17, 23, 40]));
    }

    #[test]
    fn what_does_not_fail_again_is_not_shrunk() {
        assert_eq!(shrink((1..=30).collect(), 1000, fails), None);
    }

    #[test]
    fn it_ends_with_its_attempts() {
        let shortest = shrink((1..=80).collect(), 5, fails).unwrap();
        assert!(shortest.len() < 80 && fails(&shortest).is_some());
    }
}

//! The row cache of the library in 10,000 random interleavings; sequentially consistent, as shuttle
//! is. If a part of the mechanism is left out, the model fails.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library, not this crate")]

#[path = "models/rows.rs"]
mod models;
#[path = "models"]
mod memory {
    #[path = "lost_pages.rs"]
    pub mod pages;
}
#[path = "../src/cache/rows"]
mod rows {
    mod ghost;
    #[expect(clippy::module_inception, reason = "as in the library")]
    mod rows;
    mod segment;
    mod shard;

    pub(crate) use rows::{RowCache, Rows};
}

#[path = "models/schedules.rs"]
mod schedules;
#[path = "models/shuttle_sync.rs"]
mod sync;

use models::{Fault, Lending, a_row_is_lent, puts_gets_and_evictions};
use schedules::{few_switches, random};

const SCHEDULES: usize = 10_000;

#[test]
fn no_get_finds_a_row_of_before() {
    random(SCHEDULES, || puts_gets_and_evictions(4, 8, Fault::None));
}

#[test]
fn no_get_finds_a_row_of_before_with_few_switches_in_the_worst_places() {
    few_switches(3, SCHEDULES, || puts_gets_and_evictions(4, 8, Fault::None));
}

#[test]
#[should_panic(expected = "a row of before")]
fn puts_that_do_not_mark_their_stripe_leave_a_row_of_before() {
    random(SCHEDULES, || puts_gets_and_evictions(4, 8, Fault::DoesNotMark));
}

#[test]
#[should_panic(expected = "a row of before")]
fn stamps_taken_after_the_file_was_read_keep_a_row_of_before() {
    random(SCHEDULES, || puts_gets_and_evictions(4, 8, Fault::StampsLate));
}

#[test]
#[should_panic(expected = "a row of before")]
fn rows_that_are_updated_without_the_lock_go_back() {
    // One of some thousand schedules fails.
    random(10 * SCHEDULES, || puts_gets_and_evictions(4, 8, Fault::UpdatesUnlocked));
}

#[test]
fn what_is_lent_stays_while_its_row_goes() {
    for lending in [Lending::Overwritten, Lending::Evicted] {
        random(SCHEDULES, move || a_row_is_lent(lending, true));
    }
}

#[test]
#[should_panic(expected = "what is lent changed")]
fn what_was_lent_and_is_not_held_goes() {
    random(SCHEDULES, || a_row_is_lent(Lending::Overwritten, false));
}

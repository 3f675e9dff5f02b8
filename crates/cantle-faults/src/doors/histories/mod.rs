//! Many real threads on tiny chunks, with concurrent rebalances, splits, merges and checkpoints.
//! The operations with their results are a history, and each history must be one that the promises
//! allow: linearizable, strictly serializable, with snapshots that do not change. Every value is
//! written once, so a read identifies the write that it saw.
//!
//! A seed determines the operations of the threads, not their timing: a finding may need several
//! runs to show again (`--rounds 100`). For a history that is not linearizable, a smallest set of
//! contradicting operations is reported.

mod appends;
mod batches;
mod counters;
mod dependencies;
mod drops;
mod generations;
mod history;
mod iterators;
mod lifecycle;
mod linearizability;
mod munks;
mod queues;
mod support;
mod transactions;
mod write_buffer;

use crate::visit::{Visit, words_of};
use cantle::labs::Capabilities;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Makes a history on a store and checks it.
struct History {
    name: &'static str,
    make: fn(&Visit, u64),
}

macro_rules! histories {
    ($($module:ident: $($name:ident),+;)+) => {
        &[$($(History { name: stringify!($name), make: $module::$name }),+),+]
    };
}

/// The longest first, so that no long one runs alone at the end.
const HISTORIES: &[History] = histories! {
    linearizability: every_history_is_linearizable;
    transactions: every_history_with_transactions_is_strictly_serializable;
    lifecycle: a_backup_under_load_is_a_prefix, closing_amid_writes_loses_nothing_and_frees_the_lock;
    appends: no_dependencies_of_appending_transactions_form_a_cycle;
    queues: each_pair_of_a_queue_is_popped_once;
    drops: every_operation_ends_beside_the_drop_of_its_keyspace;
    munks: no_get_is_stale_while_munks_and_rows_come_and_go;
    iterators: what_is_held_does_not_change;
    write_buffer: what_is_buffered_is_read_as_if_it_were_in_the_file;
    linearizability: every_history_of_a_buffered_store_is_linearizable;
    generations: a_generation_replaces_the_one_before_at_one_moment, a_range_delete_of_many_chunks_has_one_moment;
    batches: who_sees_one_half_of_a_batch_sees_the_other, transfers_keep_the_sum_that_snapshots_see,
        of_what_a_batch_writes_to_one_key_only_the_last_is_seen;
    transactions: every_history_with_transactions_of_a_buffered_store_is_strictly_serializable,
        transact_loses_no_increment_and_keeps_what_two_keyspaces_have_in_common;
    linearizability: every_history_of_a_sync_store_is_linearizable;
    lifecycle: keyspaces_come_and_go_under_load;
    counters: no_increment_is_lost, no_swap_is_lost;
    generations: what_was_put_and_dropped_under_a_snapshot_does_not_pile_up;
};

type Can = fn(Capabilities) -> bool;

/// Histories that need a capability which only some layouts have.
const OF_SOME: [(&str, Can); 2] = [
    ("no_get_is_stale_while_munks_and_rows_come_and_go", |layout| layout.loads_ranges),
    ("what_was_put_and_dropped_under_a_snapshot_does_not_pile_up", |layout| layout.frees_space),
];

/// Runs each history once per round. A case is a name, alone or with the seed of its round:
/// `no_increment_is_lost:7`; each round runs it again.
pub fn enter(visit: &Visit) {
    if let Some(case) = &visit.case {
        let (name, seed) = case.split_once(':').unwrap_or((case, "0"));
        let history = HISTORIES.iter().find(|history| history.name == name);
        let names = || HISTORIES.iter().map(|history| history.name).collect::<Vec<_>>().join(", ");
        let history = history.unwrap_or_else(|| panic!("there is no history {name:?}, but {}", names()));
        let seed = seed.parse().unwrap_or_else(|_| panic!("{seed:?} is no seed"));
        visit.rounds().for_each(|_| make(visit, history, seed));
        return;
    }
    let layout = visit.layout.capabilities();
    let is_meant =
        |history: &&History| OF_SOME.iter().all(|(name, can)| *name != history.name || can(layout));
    let histories: Vec<&History> = HISTORIES.iter().filter(is_meant).collect();
    for seed in visit.rounds() {
        visit.each(&histories, |history| make(visit, history, seed));
    }
}

/// Runs a history. Its panic contains the command that repeats it.
fn make(visit: &Visit, history: &History, seed: u64) {
    let made = catch_unwind(AssertUnwindSafe(|| (history.make)(visit, seed)));
    visit.count("histories", 1);
    if let Err(panic) = made {
        let text = words_of(&*panic);
        let case = format!("{}:{seed}", history.name);
        panic!(
            "{case}: {text}\nagain: cargo run -p cantle-faults -- --doors histories --rounds 20 --case {case}"
        );
    }
}

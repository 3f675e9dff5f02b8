//! The ways to break a store.

pub mod crash_states;
mod damage;
mod failing_calls;
pub mod fuzz;
mod histories;
pub mod life;
pub mod machinery;
mod model;
mod openings;
mod paths;
mod pressure;
mod revoked;
mod schedules;
mod space;
mod without_manifest;

use crate::visit::Visit;

/// A way to break a store.
#[derive(Debug, Clone, Copy)]
pub struct Door {
    pub name: &'static str,
    /// A description of the door's test.
    pub about: &'static str,
    /// Runs the door. Panics with its finding.
    pub enter: fn(&Visit),
}

/// All doors, those that find most in the least time first.
pub const DOORS: &[Door] = &[
    Door {
        name: "failing-calls",
        about: "the n-th call fails, in every way, once or from then on",
        enter: failing_calls::enter,
    },
    Door {
        name: "crash-states",
        about: "the power fails at every call that changes something, and leaves whatever it may",
        enter: crash_states::enter,
    },
    Door {
        name: "without-manifest",
        about: "the manifest is removed at every point of a job, and the store repaired",
        enter: without_manifest::enter,
    },
    Door {
        name: "damage",
        about: "files are cut, flipped, zeroed, swapped, replaced, doubled, gone",
        enter: damage::enter,
    },
    Door { name: "fuzz", about: "whatever reads bytes gets some that nobody wrote", enter: fuzz::enter },
    Door {
        name: "model",
        about: "random operations on stores of random configurations, compared with a map",
        enter: model::enter,
    },
    Door {
        name: "histories",
        about: "many threads at once, and what each was told must fit together",
        enter: histories::enter,
    },
    Door {
        name: "pressure",
        about: "one keyspace falls behind while others are idle: all writers are slowed by it, and no longer than it is behind",
        enter: pressure::enter,
    },
    Door {
        name: "revoked",
        about: "a batch fails at its commit while others stand behind it in its logs; the process dies, and dies again",
        enter: revoked::enter,
    },
    Door {
        name: "openings",
        about: "many short openings, closed and killed, after which a store is as small as it may be",
        enter: openings::enter,
    },
    Door {
        name: "space",
        about: "values of all lengths, replaced in all ways: allocated blocks against what is promised",
        enter: space::enter,
    },
    Door {
        name: "paths",
        about: "directories are renamed, replaced, destroyed under open stores; openings race; handles are left",
        enter: paths::enter,
    },
    schedules::SCHEDULES,
    life::LIFE,
    machinery::LIFE_ON_DISK,
    machinery::KILL,
    machinery::KILL_AT_CALLS,
    machinery::KILL_IN_PHASES,
    machinery::SHUTDOWN,
    machinery::REMOUNT,
    machinery::FULL,
    machinery::BAD_SYNC,
    machinery::BAD_SECTORS,
    machinery::LIMITS,
    machinery::STORES,
    machinery::RESIDENT,
];

impl Door {
    /// True if the door counts the states of stores that it opened and checked, so that it can run
    /// until there are enough.
    pub fn counts_states(&self) -> bool {
        ["crash-states", "failing-calls"].contains(&self.name)
    }
}

/// The door with this name.
pub fn door(name: &str) -> Option<Door> {
    DOORS.iter().copied().find(|door| door.name == name)
}

//! Real processes, file systems and limits of the operating system.
//!
//! ```text
//!   kill           a writing process is killed at any moment                     writer
//!   kill-at-calls  … at every system call; and system calls that fail           script, strace
//!   kill-in-phases … before every call of an opening, a batch, a rebalance, …   script, phases
//!   life-on-disk   … while it heavily uses the store after the last kill        doors/life
//!   shutdown       a file system loses all data that were not synced            writer, disks
//!   remount        … or is unmounted, copied, taken a snapshot of: what counts   disks
//!   full           a file system is full, then has space again                  filling, disks
//!   bad-sync       a sync fails because the device does; the next one succeeds  disks
//!   bad-sectors    a device loses sectors, also those of mapped pages           writer, disks
//!   limits         open files, the length of files, memory                      writer
//!   stores         several stores in one process that may open few files
//!   resident       resident memory of a process, against its store's budget
//!
//!   child          the child processes and their output
//!   writer         threads that write until they are killed, and the promised data
//!   script         operations in order, each kind of work among them
//!   phases         the phases that a thread is in
//!   disks          file systems on images, always unmounted at the end
//! ```
//!
//! Some children read by a ring of the kernel (io_uring), the others by hints. The counters list the
//! places that they read in either way.
//!
//! A child ends when its standard input does, so that none is left when its parent ends in any way.
//! If the machine cannot run a test (only root mounts, strace may be missing), this is reported and
//! the test is left out.

mod bad_sectors;
mod bad_sync;
mod child;
mod disks;
mod full;
mod kill;
mod kill_at_calls;
mod kill_in_phases;
mod life;
mod limits;
mod page_out;
mod phases;
mod remount;
mod resident;
mod script;
mod shutdown;
mod stores;
mod strace;
mod writer;

pub use child::{Part, Role, run as run_child};

use super::Door;

pub const KILL: Door = Door {
    name: "kill",
    about: "a process that writes from several threads is killed at any moment, again and again",
    enter: kill::enter,
};
pub const KILL_AT_CALLS: Door = Door {
    name: "kill-at-calls",
    about: "a process is killed at every system call, or the call fails (strace)",
    enter: kill_at_calls::enter,
};
pub const KILL_IN_PHASES: Door = Door {
    name: "kill-in-phases",
    about: "a process is killed at every call of open, batch, rebalance, split, merge, checkpoint, close",
    enter: kill_in_phases::enter,
};
pub const LIFE_ON_DISK: Door = Door {
    name: "life-on-disk",
    about: "a process that uses hard what a killed one left is killed, again and again",
    enter: life::enter,
};
pub const SHUTDOWN: Door = Door {
    name: "shutdown",
    about: "ext4 and XFS lose all that was not synced, under a process that writes (root)",
    enter: shutdown::enter,
};
pub const REMOUNT: Door = Door {
    name: "remount",
    about: "a process is killed, its volume unmounted, cut off, copied: what counts, and who is told of the rest (root)",
    enter: remount::enter,
};
pub const FULL: Door = Door {
    name: "full",
    about: "a file system is full while a store loads, splits and rebalances, then has room (root)",
    enter: full::enter,
};
pub const BAD_SYNC: Door = Door {
    name: "bad-sync",
    about: "a sync really fails, and the next one succeeds (root)",
    enter: bad_sync::enter,
};
pub const BAD_SECTORS: Door = Door {
    name: "bad-sectors",
    about: "a device loses its sectors under an open store, mapped pages among them (root)",
    enter: bad_sectors::enter,
};
pub const STORES: Door = Door {
    name: "stores",
    about: "several stores in one process that may open few files, of which the program takes its half, then all",
    enter: stores::enter,
};
pub const RESIDENT: Door = Door {
    name: "resident",
    about: "many keyspaces, tiny pairs, long keys, closed iterators: resident memory against the budget",
    enter: resident::enter,
};
pub const LIMITS: Door = Door {
    name: "limits",
    about: "a process may open no more files, write no longer ones, or take no more memory",
    enter: limits::enter,
};

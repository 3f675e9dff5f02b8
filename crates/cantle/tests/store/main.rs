//! Tests of the store through its public interface. They are in one program, as linking takes
//! longer than most of them. Tests that examine the process (its memory, files, threads, signals or
//! directory) have programs of their own next to this folder.

mod approximate;
mod backup_syncs;
mod bad_input;
mod batch_reads;
mod comparators;
mod compressed_logs;
mod conditional;
mod damaged_logs;
mod dropped_keyspaces;
mod geometry;
mod layouts;
mod left_behind;
mod limits;
mod long_keys;
mod many;
mod of_layouts;
mod openings;
mod own_writes;
mod read_only_backup;
mod regressions;
mod repair;
mod smoke;
mod stalled_store;
mod syncs;
mod transactions;
mod write_back;
mod wrong_slots;

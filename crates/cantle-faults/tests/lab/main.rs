//! The fault lab, with the effort of `cargo test`, in one program: its tests run beside each other.
//! Those that count what a process has, or need machinery, have programs of their own.

mod crash;
mod doors;
mod histories;
mod layouts;
mod model;
mod numbers;
mod past_bugs;
mod regressions;
mod space;

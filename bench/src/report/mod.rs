//! stub
use crate::record::{Run, Trial};
use crate::suite::Suite;
pub fn html(_: &Run, _: &Suite, _: &[Trial]) -> String {
    String::new()
}
pub fn print(_: &Run, _: &Suite, trials: &[Trial]) {
    for t in trials {
        println!(
            "{} {} {:?}",
            t.cell,
            t.engine,
            t.outcome.as_ref().map(|o| o.steps.values().map(|m| m.throughput()).collect::<Vec<_>>())
        );
    }
}

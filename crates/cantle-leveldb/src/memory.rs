//! The memory budget of a database, from the environment,
//! `leveldb_options_set_cantle_memory_budget`, or LevelDB's own options.

use crate::cache::Cache;
use crate::call::this_process;
use crate::status::{Result, Status};
use cantle::Resources;
pub use cantle_bindings::leveldb_budget::Budget;

/// Sets the memory budget in `options`: from the environment, else the program's choice, else
/// computed from the buffers. Databases with the same cache and the same choice share the budget.
pub fn apply(
    options: cantle::Options,
    chosen: Option<Budget>,
    write_buffer_bytes: u64,
    cache: Option<&Cache>,
) -> Result<cantle::Options> {
    let chosen = Budget::from_environment().map_err(Status::invalid)?.or(chosen);
    let bytes = match chosen {
        Some(Budget::Bytes(bytes)) => Some(bytes),
        Some(Budget::Automatic) => None,
        None => Some(Budget::of_buffers(write_buffer_bytes, cache.map(|cache| cache.capacity_bytes))),
    };
    // The option has no effect when resources are shared, but its value is still checked.
    let options = match bytes {
        Some(bytes) => options.memory_budget(bytes),
        None => options,
    };
    let Some(cache) = cache else { return Ok(options) };
    let make = || bytes.map_or_else(Resources::default, Resources::with_memory_budget);
    Ok(options.resources(cache.resources(this_process()?, chosen, make)))
}

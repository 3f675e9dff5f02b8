//! How much memory a database may use: by the environment, `leveldb_options_set_cantle_memory_budget`, or LevelDB's own options.

use crate::cache::Cache;
use crate::call::this_process;
use crate::status::{Result, Status};
use cantle::Resources;
pub use cantle_bindings::leveldb_budget::Budget;

/// Gives `options` the budget of a database: from the environment, else what the program chose, else from the buffers. Databases of the same
/// cache share it, if they have the same choice.
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
    // Beside shared resources the option has no effect, but is checked.
    let options = match bytes {
        Some(bytes) => options.memory_budget(bytes),
        None => options,
    };
    let Some(cache) = cache else { return Ok(options) };
    let make = || bytes.map_or_else(Resources::default, Resources::with_memory_budget);
    Ok(options.resources(cache.resources(this_process()?, chosen, make)))
}

//! Refuses options that no store can have, before any file is touched.

use crate::db::{KeyspaceOptions, Options};
use crate::types::compression::Compression;
use crate::types::error::{Error, Result};
use crate::types::order::{BYTEWISE, KeyOrder};

/// Refuses options that no store can have.
pub(crate) fn check_options(options: &Options) -> Result<()> {
    if let Some(bytes) = options.memory_budget
        && bytes < 1 << 20
    {
        return Err(Error::InvalidArgument(format!("a memory budget of {bytes} bytes is below 1 MiB")));
    }
    if options.monitor {
        let reason = match (cfg!(all(feature = "monitor", target_os = "linux")), options.read_only) {
            (false, _) => Some("this library was built without the feature `monitor`, which is for Linux"),
            (true, true) => {
                Some("any number of processes may read a store, and only one can have its socket")
            }
            (true, false) => options.vfs.as_ref().map(|_| "a socket needs a directory of the system's"),
        };
        if let Some(reason) = reason {
            return Err(Error::InvalidArgument(format!("the option monitor: {reason}")));
        }
    }
    options.comparators.iter().try_for_each(|comparator| check_comparator_name(comparator.name()))?;
    check_keyspace_options(&options.default_keyspace)
}

/// Refuses options that no keyspace can have.
pub(super) fn check_keyspace_options(options: &KeyspaceOptions) -> Result<()> {
    let invalid = |what: String| Err(Error::InvalidArgument(what));
    if let Some(layout) = &options.layout {
        layout.check()?;
    }
    if let Some(bound) = options.space_amplification
        && !(bound >= 1.1 && bound.is_finite())
    {
        return invalid(format!("a space_amplification of {bound} is below 1.1"));
    }
    if let Some(order @ KeyOrder::Custom(_)) = &options.order {
        check_comparator_name(order.name())?;
        options.layout.as_ref().map_or(Ok(()), |layout| layout.check_order(order))?;
    }
    match options.compression {
        Compression::Zstd(level) if !(1..=22).contains(&level) => {
            invalid(format!("a Zstd level of {level} is outside 1 to 22"))
        }
        #[cfg(not(feature = "zstd"))]
        Compression::Zstd(_) => invalid("this library was built without the feature `zstd`".into()),
        _ => Ok(()),
    }
}

/// Refuses a comparator with the name of the bytewise order. Otherwise its keyspace could be opened
/// without it, in another order than that of its keys.
fn check_comparator_name(name: &str) -> Result<()> {
    if name == BYTEWISE {
        return Err(Error::InvalidArgument(format!(
            "a comparator is named {BYTEWISE:?}, which is the name of the order without one: give it another"
        )));
    }
    Ok(())
}

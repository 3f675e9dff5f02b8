//! RocksDB's grid: the few configurations among which each figure's rival is chosen.

/// Text that names all of them on the command line.
pub const NAME: &str = "rocksdb-grid";

/// Levels and tiers, with small and large write buffers, and the rest of the budget for blocks. At most
/// three write buffers exist at a time. Filters are in the tables' memory or a part of the cache.
pub const ROCKSDB: [&str; 5] = [
    "rocksdb:compaction=leveled:write_buffer=1/8:level0_trigger=4:cache=1/2:filter=10",
    "rocksdb:compaction=leveled:write_buffer=1/4:level0_trigger=4:cache=1/4:filter=10",
    "rocksdb:compaction=leveled:write_buffer=1/16:level0_trigger=8:cache=3/4:filter=10:filter_in=cache",
    "rocksdb:compaction=universal:write_buffer=1/8:level0_trigger=4:cache=1/2:filter=10",
    "rocksdb:compaction=universal:write_buffer=1/4:level0_trigger=8:cache=1/4:filter=10",
];

/// Bytes of `text`: a share of the budget, as in `1/8`, or a size, as in `64MiB`.
#[cfg(any(test, feature = "rocksdb"))]
pub fn bytes(text: &str, budget_bytes: u64) -> crate::failure::Result<u64> {
    let wrong = || crate::failure::Failure(format!("{text:?} is neither a share, as in 1/8, nor a size"));
    let Some((above, below)) = text.split_once('/') else {
        return cantle_workloads::size::parse_size(text).map_err(crate::failure::Failure);
    };
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| (1..=1_000).contains(number));
    let (above, below) = number(above).zip(number(below)).ok_or_else(wrong)?;
    if above <= below { Ok(budget_bytes / below * above) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Spec;

    #[test]
    fn memory_is_a_share_of_the_budget_or_a_size() {
        assert_eq!(bytes("3/4", 1 << 20).unwrap(), 3 << 18);
        assert_eq!(bytes("64MiB", 1).unwrap(), 64 << 20);
        for text in ["1/0", "3/2", "x/2", "1/", "much"] {
            assert!(bytes(text, 1 << 20).is_err(), "{text}");
        }
    }

    #[test]
    fn no_configuration_of_the_grid_takes_more_than_the_budget() {
        let specs = Spec::parse(NAME).unwrap();
        assert_eq!(specs.len(), ROCKSDB.len());
        for style in ["leveled", "universal"] {
            assert!(specs.iter().filter(|spec| spec.settings["compaction"] == style).count() > 1, "{style}");
        }
        for spec in specs {
            let share = |name: &str| bytes(&spec.settings[name], 1 << 20).unwrap();
            assert!(3 * share("write_buffer") + share("cache") <= 1 << 20, "{spec}");
            assert_eq!(Spec::try_from(spec.to_string()), Ok(spec), "names are read as they are written");
        }
    }
}

//! Options of the layout `flsm`.

use super::kind::LayoutKind;
use super::options::{bytes, parse, unknown};
use crate::types::error::{Error, Result};
use crate::types::order::KeyOrder;
use crate::vfs::DEPTH_MAX;
use std::ops::RangeInclusive;

/// Options of the layout `flsm` (PebblesDB). All take effect at each opening; tables and guards that
/// exist are changed by later merges only.
#[derive(Debug, Clone, PartialEq)]
pub struct FlsmOptions {
    pub(crate) generation_bytes: Option<u64>,
    pub(crate) log_is_level_0: bool,
    pub(crate) guard_bytes: u64,
    pub(crate) max_sstables_per_guard: Option<u32>,
    pub(crate) seek_compaction: Option<u32>,
    pub(crate) parallel_search: u32,
    pub(crate) level_percent: Option<u32>,
    pub(crate) top_level_bits: Option<u32>,
    pub(crate) bit_decrement: u32,
}

impl Default for FlsmOptions {
    fn default() -> Self {
        Self {
            generation_bytes: None,
            log_is_level_0: true,
            guard_bytes: 16 << 20,
            max_sstables_per_guard: None,
            seek_compaction: None,
            parallel_search: DEPTH_MAX as u32,
            level_percent: None,
            top_level_bits: None,
            bit_decrement: 2,
        }
    }
}

impl FlsmOptions {
    const NAMES: &[&str] = &[
        "generation_bytes",
        "guard_bytes",
        "max_sstables_per_guard",
        "seek_compaction",
        "parallel_search",
        "level_percent",
        "top_level_bits",
        "bit_decrement",
        "log_is_level_0",
    ];
    const GENERATION_BYTES: RangeInclusive<u64> = 4 << 10..=32 << 20;
    const GUARD_BYTES: RangeInclusive<u64> = 4 << 10..=1 << 30;
    const MAX_SSTABLES_PER_GUARD: RangeInclusive<u32> = 1..=64;
    const SEEK_COMPACTION: RangeInclusive<u32> = 1..=1_000_000;
    const PARALLEL_SEARCH: RangeInclusive<u32> = 1..=DEPTH_MAX as u32;
    const LEVEL_PERCENT: RangeInclusive<u32> = 1..=100;
    const TOP_LEVEL_BITS: RangeInclusive<u32> = 1..=48;
    const BIT_DECREMENT: RangeInclusive<u32> = 0..=16;

    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The settings of the published PebblesDB, by which the lab reproduces the paper's measurements: logs
    /// of 4 MB (§5.1), guards by hash (§4.5), and merges after ten seeks and at a quarter of the next level
    /// (§4.2). The paper names no number of tables of a guard; its authors' code has 2.
    ///
    /// Some differences remain: tables that lie within one guard of the next level move there; empty guards are deleted; a level is added when the
    /// data need it; and garbage beyond the space bound makes merges.
    #[doc(hidden)]
    pub fn as_published() -> Self {
        Self {
            generation_bytes: Some(4_000_000),
            log_is_level_0: false,
            max_sstables_per_guard: Some(2),
            seek_compaction: Some(10),
            level_percent: Some(25),
            top_level_bits: Some(27),
            ..Self::default()
        }
    }

    /// The length in bytes at which a log is full, and the next one begins; 4 KiB to 32 MiB, as an
    /// opening after the death of a process may have to read one without an index. It corresponds to
    /// the size of the memtable in PebblesDB (§5.1 has 4 MB). Default: a 24th of the memory budget,
    /// from 1 to 16 MiB. Longer logs are merged less often and need more memory for their indexes;
    /// shorter ones the reverse.
    pub fn generation_bytes(mut self, bytes: u64) -> Self {
        self.generation_bytes = Some(bytes);
        self
    }

    /// False flushes every full generation to a table of level 0, as PebblesDB and other log-structured merge
    /// trees do. Default: true. A log gets an index on disk then, and is a sorted run of level 0 as it is: that
    /// saves writing its pairs a second time. Reads of a table are a little faster and its pairs are compressed at
    /// once, but every pair is written once more, and logs in key order are written again, too. Generations
    /// of tiny pairs (below about 64 bytes) are flushed in any case: their index would be longer than two
    /// fifths of the records.
    pub fn log_is_level_0(mut self, is_level_0: bool) -> Self {
        self.log_is_level_0 = is_level_0;
        self
    }

    /// The target length in bytes of the tables of the last level, and so of its guards (PebblesDB
    /// §3.3); 4 KiB to 1 GiB. Default: 16 MiB. Smaller guards make each merge shorter and need more
    /// files; larger ones the reverse.
    pub fn guard_bytes(mut self, bytes: u64) -> Self {
        self.guard_bytes = bytes;
        self
    }

    /// The maximum number of tables of a guard before some of them are merged (PebblesDB §3.5); 1 to
    /// 64. Fewer tables make reads faster, more make writes cheaper. With 1 the tree is an ordinary
    /// log-structured merge tree. Default: each guard has its own number from 1 to 12, which follows
    /// from the seeks and the writes of its keys; a guard without either may have 6.
    pub fn max_sstables_per_guard(mut self, tables: u32) -> Self {
        self.max_sstables_per_guard = Some(tables);
        self
    }

    /// Merges the tables of a guard into the next level after more than this number of seeks without a
    /// write to the keyspace between them (PebblesDB §4.2 has 10); 1 to 1,000,000. Default: off. By
    /// default a guard is merged when its reads have cost as much as a merge, whatever is written
    /// meanwhile. With this option that cost makes no merge. A small number makes the first scans after
    /// a load faster, and writes more.
    pub fn seek_compaction(mut self, seeks: u32) -> Self {
        self.seek_compaction = Some(seeks);
        self
    }

    /// Merges a level down when its tables have this part of the bytes of the next level, in percent
    /// (PebblesDB §4.2 has 25); 1 to 100. Default: off. Reads then find most levels empty, and merges
    /// write more.
    pub fn level_percent(mut self, percent: u32) -> Self {
        self.level_percent = Some(percent);
        self
    }

    /// Chooses guards by the hash of keys, as published, in place of from the data (PebblesDB §3.2): a key
    /// begins a guard of level 1 if this number of the lowest bits of its hash are set; 1 to 48. Default:
    /// off. The paper has 27, and asks for more beyond 100 million keys (§4.5). More bits make fewer and
    /// longer guards. No guard is divided or joined by its size then, logs in key order are merged like
    /// others, and guards are deleted only when all their data is. It takes effect for the guards that
    /// later merges make. A keyspace whose comparator takes different bytes for equal keys cannot have it.
    pub fn top_level_bits(mut self, bits: u32) -> Self {
        self.top_level_bits = Some(bits);
        self
    }

    /// The number of bits fewer that the hash of a key needs for each deeper level; 0 to 16. Default: 2,
    /// as published (PebblesDB §4.5). A greater number makes more guards of deeper levels. No effect
    /// without [`top_level_bits`](Self::top_level_bits).
    pub fn bit_decrement(mut self, bits: u32) -> Self {
        self.bit_decrement = bits;
        self
    }

    /// The number of logs and tables that a get searches at the same time at most, where it has to read several
    /// of them from a device; 1 to 16. Default: 16. See
    /// [`ForestOptions::parallel_search`](crate::ForestOptions::parallel_search).
    pub fn parallel_search(mut self, runs: u32) -> Self {
        self.parallel_search = runs;
        self
    }

    /// The length in bytes at which a log is full; `None` if it follows from the memory budget.
    pub fn get_generation_bytes(&self) -> Option<u64> {
        self.generation_bytes
    }

    /// True if a log is a run of level 0 as it is; false if every generation is flushed to a table.
    pub fn get_log_is_level_0(&self) -> bool {
        self.log_is_level_0
    }

    /// The target length in bytes of the tables of the last level.
    pub fn get_guard_bytes(&self) -> u64 {
        self.guard_bytes
    }

    /// The maximum number of tables of a guard before some of them are merged; `None` if it follows
    /// from the reads and writes of each guard.
    pub fn get_max_sstables_per_guard(&self) -> Option<u32> {
        self.max_sstables_per_guard
    }

    /// The number of seeks without a write after which a guard is merged; `None` if the cost of reads
    /// decides.
    pub fn get_seek_compaction(&self) -> Option<u32> {
        self.seek_compaction
    }

    /// The part of the next level's bytes at which a level is merged down, in percent; `None` if there
    /// is no such rule.
    pub fn get_level_percent(&self) -> Option<u32> {
        self.level_percent
    }

    /// The number of bits of a key's hash that must be set for a guard of level 1; `None` if guards are
    /// chosen from the data.
    pub fn get_top_level_bits(&self) -> Option<u32> {
        self.top_level_bits
    }

    /// The number of bits fewer for each deeper level.
    pub fn get_bit_decrement(&self) -> u32 {
        self.bit_decrement
    }

    /// The number of runs that a get searches at the same time at most.
    pub fn get_parallel_search(&self) -> u32 {
        self.parallel_search
    }

    /// Refuses an order of keys in which these options cannot work.
    pub(super) fn check_order(&self, order: &KeyOrder) -> Result<()> {
        match self.top_level_bits {
            Some(bits) if !order.hashable() => Err(Error::InvalidArgument(format!(
                "top_level_bits={bits} chooses guards by the hash of keys, but for the comparator {:?} equal keys may \
                 have different bytes and so different hashes: leave the option out, and guards are chosen from the data",
                order.name()
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "generation_bytes" => self.generation_bytes = Some(bytes(name, value)?),
            "log_is_level_0" => self.log_is_level_0 = parse(name, value)?,
            "guard_bytes" => self.guard_bytes = bytes(name, value)?,
            "max_sstables_per_guard" => self.max_sstables_per_guard = Some(parse(name, value)?),
            "seek_compaction" => self.seek_compaction = Some(parse(name, value)?),
            "parallel_search" => self.parallel_search = parse(name, value)?,
            "level_percent" => self.level_percent = Some(parse(name, value)?),
            "top_level_bits" => self.top_level_bits = Some(parse(name, value)?),
            "bit_decrement" => self.bit_decrement = parse(name, value)?,
            _ => return Err(unknown(LayoutKind::Flsm, name, Self::NAMES)),
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<()> {
        let invalid = |what: String| Err(Error::InvalidArgument(what));
        if let Some(bytes) = self.generation_bytes.filter(|bytes| !Self::GENERATION_BYTES.contains(bytes)) {
            return invalid(format!("generation_bytes of {bytes} is outside 4 KiB to 32 MiB"));
        }
        if !Self::GUARD_BYTES.contains(&self.guard_bytes) {
            return invalid(format!("guard_bytes of {} is outside 4 KiB to 1 GiB", self.guard_bytes));
        }
        let tables = self.max_sstables_per_guard;
        if let Some(tables) = tables.filter(|tables| !Self::MAX_SSTABLES_PER_GUARD.contains(tables)) {
            return invalid(format!("max_sstables_per_guard of {tables} is outside 1 to 64"));
        }
        if let Some(seeks) = self.seek_compaction.filter(|seeks| !Self::SEEK_COMPACTION.contains(seeks)) {
            return invalid(format!("seek_compaction of {seeks} is outside 1 to 1,000,000"));
        }
        if !Self::PARALLEL_SEARCH.contains(&self.parallel_search) {
            return invalid(format!("parallel_search of {} is outside 1 to 16", self.parallel_search));
        }
        if let Some(percent) = self.level_percent.filter(|percent| !Self::LEVEL_PERCENT.contains(percent)) {
            return invalid(format!("level_percent of {percent} is outside 1 to 100"));
        }
        if let Some(bits) = self.top_level_bits.filter(|bits| !Self::TOP_LEVEL_BITS.contains(bits)) {
            return invalid(format!("top_level_bits of {bits} are outside 1 to 48"));
        }
        if !Self::BIT_DECREMENT.contains(&self.bit_decrement) {
            return invalid(format!("bit_decrement of {} is outside 0 to 16", self.bit_decrement));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::options::LayoutOptions;

    #[test]
    fn text_gives_the_options_that_it_names() {
        let text = "flsm: generation_bytes=1 MiB, guard_bytes=2MiB, max_sstables_per_guard=3";
        let options = FlsmOptions::new().generation_bytes(1 << 20).guard_bytes(2 << 20);
        assert_eq!(text.parse::<LayoutOptions>().unwrap(), options.max_sstables_per_guard(3).into());
        let options = FlsmOptions::new().seek_compaction(10).level_percent(25);
        let options = options.top_level_bits(27).bit_decrement(3).log_is_level_0(false);
        let text =
            "flsm:seek_compaction=10,level_percent=25,top_level_bits=27,bit_decrement=3,log_is_level_0=false";
        assert_eq!(text.parse::<LayoutOptions>().unwrap(), options.into());
        assert_eq!("flsm".parse::<LayoutOptions>().unwrap(), FlsmOptions::new().into());
    }

    #[test]
    fn options_show_what_was_set_and_what_holds_otherwise() {
        let seen = |options: &FlsmOptions| {
            let sizes = (options.get_generation_bytes(), options.get_guard_bytes());
            let reads = (options.get_seek_compaction(), options.get_level_percent());
            let bits = (options.get_top_level_bits(), options.get_bit_decrement());
            (sizes, options.get_max_sstables_per_guard(), reads, bits)
        };
        assert_eq!(seen(&FlsmOptions::new()), ((None, 16 << 20), None, (None, None), (None, 2)));
        let set = FlsmOptions::new().generation_bytes(1 << 20).guard_bytes(2 << 20).max_sstables_per_guard(3);
        let set = set.seek_compaction(10).level_percent(25).top_level_bits(20).bit_decrement(1);
        let expected = ((Some(1 << 20), 2 << 20), Some(3), (Some(10), Some(25)), (Some(20), 1));
        assert_eq!(seen(&set), expected);
        assert!(set.get_log_is_level_0() && !set.log_is_level_0(false).get_log_is_level_0());
    }

    #[test]
    fn every_setter_has_a_getter_and_a_name_in_text() {
        let source = include_str!("flsm_options.rs").split("\nimpl FlsmOptions {").nth(1).unwrap();
        let source = source.split("\n}\n").next().unwrap();
        let setters = source.split("pub fn ").filter_map(|rest| rest.split_once("(mut self,"));
        let mut setters: Vec<&str> = setters.map(|(name, _)| name).collect();
        setters.sort_unstable();
        for setter in &setters {
            assert!(source.contains(&format!("pub fn get_{setter}(&self)")), "{setter} has no getter");
        }
        let mut names = FlsmOptions::NAMES.to_vec();
        names.sort_unstable();
        assert_eq!(setters, names);
    }

    #[test]
    fn wrong_text_is_an_error_that_says_what_there_is() {
        for (text, told) in [
            (
                "flsm:munks=true",
                "layout flsm has no option \"munks\"; its options: generation_bytes, guard_bytes",
            ),
            (
                "chunk:guard_bytes=1MiB",
                "layout chunk has no option \"guard_bytes\"; its options: chunk_bytes",
            ),
            ("flsm:guard_bytes", "NAME=VALUE"),
            ("flsm:max_sstables_per_guard=-1", "max_sstables_per_guard=-1"),
        ] {
            let error = text.parse::<LayoutOptions>().unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }

    #[test]
    fn a_value_out_of_range_is_an_error_that_names_the_range() {
        for (text, told) in [
            ("flsm:generation_bytes=4095", "generation_bytes of 4095 is outside 4 KiB to 32 MiB"),
            ("flsm:guard_bytes=2GiB", "guard_bytes of 2147483648 is outside 4 KiB to 1 GiB"),
            ("flsm:max_sstables_per_guard=0", "max_sstables_per_guard of 0 is outside 1 to 64"),
            ("flsm:max_sstables_per_guard=65", "max_sstables_per_guard of 65 is outside 1 to 64"),
            ("flsm:parallel_search=0", "parallel_search of 0 is outside 1 to 16"),
            ("flsm:seek_compaction=0", "seek_compaction of 0 is outside 1 to 1,000,000"),
            ("flsm:level_percent=101", "level_percent of 101 is outside 1 to 100"),
            ("flsm:top_level_bits=0", "top_level_bits of 0 are outside 1 to 48"),
            ("flsm:top_level_bits=49", "top_level_bits of 49 are outside 1 to 48"),
            ("flsm:bit_decrement=17", "bit_decrement of 17 is outside 0 to 16"),
        ] {
            let options: LayoutOptions = text.parse().unwrap();
            assert!(options.check().unwrap_err().to_string().contains(told), "{text}");
        }
        for text in ["flsm:generation_bytes=4KiB,max_sstables_per_guard=64", "flsm:guard_bytes=1GiB"] {
            text.parse::<LayoutOptions>().unwrap().check().unwrap();
        }
    }
}

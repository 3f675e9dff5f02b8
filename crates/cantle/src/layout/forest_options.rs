//! Options of the layout `forest`.

use super::kind::LayoutKind;
use super::options::{bytes, parse, unknown};
use crate::types::error::{Error, Result};
use crate::vfs::DEPTH_MAX;
use std::ops::RangeInclusive;

/// Options of the layout `forest` (SifrDB). All take effect at each opening; trees and sub-trees that
/// exist are changed by later merges only.
#[derive(Debug, Clone, PartialEq)]
pub struct ForestOptions {
    pub(crate) generation_bytes: Option<u64>,
    pub(crate) log_is_level_0: bool,
    pub(crate) growth_factor: u32,
    pub(crate) sub_tree_bytes: Option<u64>,
    pub(crate) cleaning_threshold: Option<u32>,
    pub(crate) seek_compaction: Option<u32>,
    pub(crate) parallel_search: u32,
    pub(crate) filters: bool,
    pub(crate) size_tiered: bool,
    pub(crate) aligned_storing: bool,
    pub(crate) direct_io: bool,
}

impl Default for ForestOptions {
    fn default() -> Self {
        Self {
            generation_bytes: None,
            log_is_level_0: true,
            growth_factor: 4,
            sub_tree_bytes: None,
            cleaning_threshold: None,
            seek_compaction: None,
            parallel_search: DEPTH_MAX as u32,
            filters: true,
            size_tiered: false,
            aligned_storing: false,
            direct_io: false,
        }
    }
}

impl ForestOptions {
    const NAMES: &[&str] = &[
        "generation_bytes",
        "growth_factor",
        "sub_tree_bytes",
        "cleaning_threshold",
        "seek_compaction",
        "parallel_search",
        "filters",
        "size_tiered",
        "aligned_storing",
        "direct_io",
        "log_is_level_0",
    ];
    const GENERATION_BYTES: RangeInclusive<u64> = 4 << 10..=32 << 20;
    const GROWTH_FACTOR: RangeInclusive<u32> = 2..=16;
    const SUB_TREE_BYTES: RangeInclusive<u64> = 4 << 10..=1 << 30;
    const CLEANING_THRESHOLD: RangeInclusive<u32> = 1..=10_000;
    const SEEK_COMPACTION: RangeInclusive<u32> = 1..=1_000_000;
    const PARALLEL_SEARCH: RangeInclusive<u32> = 1..=DEPTH_MAX as u32;

    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The settings of the published SifrDB, by which the lab reproduces the paper's measurements: write buffers of
    /// 4 MB that are flushed to tables (§5.1), sub-trees of 2 MB (§6) that are cleaned ten at a time (§4.2), and no filters (§6).
    ///
    /// Some differences remain: garbage beyond the space bound makes merges, and so do reads that have cost as much.
    #[doc(hidden)]
    pub fn as_published() -> Self {
        Self {
            generation_bytes: Some(4_000_000),
            log_is_level_0: false,
            sub_tree_bytes: Some(2_000_000),
            cleaning_threshold: Some(10),
            filters: false,
            ..Self::default()
        }
    }

    /// The length in bytes at which a log is full, and the next one begins; 4 KiB to 32 MiB, as an
    /// opening after the death of a process may have to read one without an index. It corresponds to
    /// the write buffer in SifrDB (§5.2 has LevelDB's 4 MB). Default: a 24th of the memory budget,
    /// from 1 to 16 MiB. Longer logs are merged less often and need more memory for their indexes;
    /// shorter ones the reverse.
    pub fn generation_bytes(mut self, bytes: u64) -> Self {
        self.generation_bytes = Some(bytes);
        self
    }

    /// False flushes every full generation to a table of level 0. Default: true. See
    /// [`FlsmOptions::log_is_level_0`](crate::FlsmOptions::log_is_level_0).
    pub fn log_is_level_0(mut self, is_level_0: bool) -> Self {
        self.log_is_level_0 = is_level_0;
        self
    }

    /// The number of trees of a stage beyond which the oldest ones become one tree of the next stage (SifrDB
    /// §3.1); 2 to 16. Default: 4, as published. With more trees each pair is written less often, and reads
    /// search more trees.
    pub fn growth_factor(mut self, trees: u32) -> Self {
        self.growth_factor = trees;
        self
    }

    /// The usual length in bytes of a sub-tree, the paper's split unit (SifrDB §6); 4 KiB to 1 GiB. Default: 2
    /// MiB, and beyond 128 GiB of data a 65,536th of it. Shorter ones leave more data as it is when
    /// writes are partly in key order, and need more files; longer ones the reverse.
    pub fn sub_tree_bytes(mut self, bytes: u64) -> Self {
        self.sub_tree_bytes = Some(bytes);
        self
    }

    /// The number of new sub-trees after which the merged ones before them are removed, while the merge goes on
    /// (SifrDB §4.2 has 10); 1 to 10,000. Default: at least 11, up to a 64th of the data. A merge needs about as
    /// much space besides; a small number makes more edits of the manifest.
    pub fn cleaning_threshold(mut self, sub_trees: u32) -> Self {
        self.cleaning_threshold = Some(sub_trees);
        self
    }

    /// Merges a range of keys into one tree after more than this number of seeks without a
    /// write to the keyspace between them (SifrDB §6 names 10); 1 to 1,000,000. Default: off. By
    /// default a range is merged when its reads have cost as much as a merge, whatever is written
    /// meanwhile. With this option that cost makes no merge.
    pub fn seek_compaction(mut self, seeks: u32) -> Self {
        self.seek_compaction = Some(seeks);
        self
    }

    /// The number of logs and sub-trees that a get searches at the same time at most, where it has to read several
    /// of them from a device (SifrDB §4.3); 1 to 16. Default: 16, as published. A get searches no more than the
    /// device has been seen to gain by, and 1 searches one after the other, which reads least. A batch of gets reads
    /// for all its keys at the same time, and searches the logs and sub-trees of each one after the other.
    pub fn parallel_search(mut self, runs: u32) -> Self {
        self.parallel_search = runs;
        self
    }

    /// False gives new logs and sub-trees no Bloom filters, as in the published measurements (SifrDB §6). Default:
    /// true. Filters take about a byte and a quarter for each pair, and spare a get most of its reads.
    pub fn filters(mut self, are_made: bool) -> Self {
        self.filters = are_made;
        self
    }

    /// True makes the forest that SifrDB is compared with: each tree is one table, and a merge of trees takes them whole
    /// and removes them at its end (SifrDB §3.4). Default: false. Data in key order is written again in each stage, and
    /// a merge needs as much space besides as it reads, also on a full disk. The index of a table is in memory as a whole
    /// while it is written or read, so trees can be some GB long. `sub_tree_bytes` and `cleaning_threshold` have
    /// no effect then. Existing trees are changed by later merges.
    pub fn size_tiered(mut self, is_size_tiered: bool) -> Self {
        self.size_tiered = is_size_tiered;
        self
    }

    /// True allocates the space of a sub-tree before it is written (LDS, as SifrDB §5.2 uses it): the file system finds its
    /// place once, as its length is known about, and gets back what is too much. Default: false: the file system finds
    /// a place for each piece that it writes out.
    pub fn aligned_storing(mut self, is_aligned: bool) -> Self {
        self.aligned_storing = is_aligned;
        self
    }

    /// True writes sub-trees past the operating system's page cache (LDS, as SifrDB §5.2 uses it): merges drive nothing
    /// out of it, and reads of new sub-trees begin at the device. Default: false. A merge waits for each write then. A file
    /// system that has no such writes is asked once, and written as usual.
    pub fn direct_io(mut self, is_direct: bool) -> Self {
        self.direct_io = is_direct;
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

    /// The number of trees of a stage beyond which some of them are merged.
    pub fn get_growth_factor(&self) -> u32 {
        self.growth_factor
    }

    /// The usual length in bytes of a sub-tree; `None` if it follows from the data.
    pub fn get_sub_tree_bytes(&self) -> Option<u64> {
        self.sub_tree_bytes
    }

    /// The number of new sub-trees after which merged ones are removed; `None` if it follows from the data.
    pub fn get_cleaning_threshold(&self) -> Option<u32> {
        self.cleaning_threshold
    }

    /// The number of seeks without a write after which a range is merged; `None` if the cost of reads
    /// decides.
    pub fn get_seek_compaction(&self) -> Option<u32> {
        self.seek_compaction
    }

    /// True if each tree is one table.
    pub fn get_size_tiered(&self) -> bool {
        self.size_tiered
    }

    /// True if the space of sub-trees is allocated before they are written.
    pub fn get_aligned_storing(&self) -> bool {
        self.aligned_storing
    }

    /// True if sub-trees are written past the operating system's page cache.
    pub fn get_direct_io(&self) -> bool {
        self.direct_io
    }

    /// True if new logs and sub-trees get Bloom filters.
    pub fn get_filters(&self) -> bool {
        self.filters
    }

    /// The number of runs that a get searches at the same time at most.
    pub fn get_parallel_search(&self) -> u32 {
        self.parallel_search
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "generation_bytes" => self.generation_bytes = Some(bytes(name, value)?),
            "log_is_level_0" => self.log_is_level_0 = parse(name, value)?,
            "growth_factor" => self.growth_factor = parse(name, value)?,
            "sub_tree_bytes" => self.sub_tree_bytes = Some(bytes(name, value)?),
            "cleaning_threshold" => self.cleaning_threshold = Some(parse(name, value)?),
            "seek_compaction" => self.seek_compaction = Some(parse(name, value)?),
            "parallel_search" => self.parallel_search = parse(name, value)?,
            "filters" => self.filters = parse(name, value)?,
            "size_tiered" => self.size_tiered = parse(name, value)?,
            "aligned_storing" => self.aligned_storing = parse(name, value)?,
            "direct_io" => self.direct_io = parse(name, value)?,
            _ => return Err(unknown(LayoutKind::Forest, name, Self::NAMES)),
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<()> {
        let invalid = |what: String| Err(Error::InvalidArgument(what));
        if let Some(bytes) = self.generation_bytes.filter(|bytes| !Self::GENERATION_BYTES.contains(bytes)) {
            return invalid(format!("generation_bytes of {bytes} is outside 4 KiB to 32 MiB"));
        }
        if !Self::GROWTH_FACTOR.contains(&self.growth_factor) {
            return invalid(format!("growth_factor of {} is outside 2 to 16", self.growth_factor));
        }
        if let Some(bytes) = self.sub_tree_bytes.filter(|bytes| !Self::SUB_TREE_BYTES.contains(bytes)) {
            return invalid(format!("sub_tree_bytes of {bytes} is outside 4 KiB to 1 GiB"));
        }
        let threshold = self.cleaning_threshold;
        if let Some(trees) = threshold.filter(|trees| !Self::CLEANING_THRESHOLD.contains(trees)) {
            return invalid(format!("cleaning_threshold of {trees} is outside 1 to 10,000"));
        }
        if let Some(seeks) = self.seek_compaction.filter(|seeks| !Self::SEEK_COMPACTION.contains(seeks)) {
            return invalid(format!("seek_compaction of {seeks} is outside 1 to 1,000,000"));
        }
        if !Self::PARALLEL_SEARCH.contains(&self.parallel_search) {
            return invalid(format!("parallel_search of {} is outside 1 to 16", self.parallel_search));
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
        let text = "forest: generation_bytes=1 MiB, growth_factor=8, sub_tree_bytes=1MiB, cleaning_threshold=5, \
                    seek_compaction=10, parallel_search=4, filters=false, size_tiered=true, \
                    aligned_storing=true, direct_io=true, log_is_level_0=false";
        let options = ForestOptions::new().generation_bytes(1 << 20).growth_factor(8).sub_tree_bytes(1 << 20);
        let options = options.cleaning_threshold(5).seek_compaction(10).log_is_level_0(false);
        let options = options.parallel_search(4).filters(false).size_tiered(true);
        let options = options.aligned_storing(true).direct_io(true);
        let seen =
            (options.get_generation_bytes(), options.get_growth_factor(), options.get_sub_tree_bytes());
        assert_eq!(seen, (Some(1 << 20), 8, Some(1 << 20)));
        assert_eq!((options.get_cleaning_threshold(), options.get_seek_compaction()), (Some(5), Some(10)));
        assert!(!options.get_log_is_level_0() && !options.get_filters());
        assert_eq!((options.get_parallel_search(), options.get_size_tiered()), (4, true));
        assert!(options.get_aligned_storing() && options.get_direct_io());
        assert_eq!(text.parse::<LayoutOptions>().unwrap(), options.into());
        assert_eq!("forest".parse::<LayoutOptions>().unwrap(), ForestOptions::new().into());
    }

    #[test]
    fn every_setter_has_a_getter_and_a_name_in_text() {
        let source = include_str!("forest_options.rs").split("\nimpl ForestOptions {").nth(1).unwrap();
        let source = source.split("\n}\n").next().unwrap();
        let setters = source.split("pub fn ").filter_map(|rest| rest.split_once("(mut self,"));
        let mut setters: Vec<&str> = setters.map(|(name, _)| name).collect();
        setters.sort_unstable();
        for setter in &setters {
            assert!(source.contains(&format!("pub fn get_{setter}(&self)")), "{setter} has no getter");
        }
        let mut names = ForestOptions::NAMES.to_vec();
        names.sort_unstable();
        assert_eq!(setters, names);
    }

    #[test]
    fn a_value_out_of_range_is_an_error_that_names_the_range() {
        for (text, told) in [
            ("forest:generation_bytes=4095", "generation_bytes of 4095 is outside 4 KiB to 32 MiB"),
            ("forest:growth_factor=1", "growth_factor of 1 is outside 2 to 16"),
            ("forest:growth_factor=17", "growth_factor of 17 is outside 2 to 16"),
            ("forest:sub_tree_bytes=2GiB", "sub_tree_bytes of 2147483648 is outside 4 KiB to 1 GiB"),
            ("forest:cleaning_threshold=0", "cleaning_threshold of 0 is outside 1 to 10,000"),
            ("forest:parallel_search=0", "parallel_search of 0 is outside 1 to 16"),
            ("forest:seek_compaction=0", "seek_compaction of 0 is outside 1 to 1,000,000"),
        ] {
            let options: LayoutOptions = text.parse().unwrap();
            assert!(options.check().unwrap_err().to_string().contains(told), "{text}");
        }
        let refused = "forest:guard_bytes=1MiB".parse::<LayoutOptions>().unwrap_err().to_string();
        assert!(
            refused.contains("layout forest has no option \"guard_bytes\"; its options: generation_bytes")
        );
        "forest:generation_bytes=4KiB,growth_factor=16".parse::<LayoutOptions>().unwrap().check().unwrap();
    }
}

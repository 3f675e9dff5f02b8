//! Options of the layout `flsm`.

use super::kind::LayoutKind;
use super::options::{bytes, parse, unknown};
use crate::types::error::{Error, Result};
use std::ops::RangeInclusive;

/// Options of the layout `flsm` (PebblesDB). All take effect at each opening; tables and guards that
/// exist are changed by later merges only.
#[derive(Debug, Clone, PartialEq)]
pub struct FlsmOptions {
    pub(crate) generation_bytes: Option<u64>,
    pub(crate) guard_bytes: u64,
    pub(crate) max_sstables_per_guard: u32,
}

impl Default for FlsmOptions {
    fn default() -> Self {
        Self { generation_bytes: None, guard_bytes: 16 << 20, max_sstables_per_guard: 6 }
    }
}

impl FlsmOptions {
    const NAMES: &[&str] = &["generation_bytes", "guard_bytes", "max_sstables_per_guard"];
    const GENERATION_BYTES: RangeInclusive<u64> = 4 << 10..=1 << 30;
    const GUARD_BYTES: RangeInclusive<u64> = 4 << 10..=1 << 30;
    const MAX_SSTABLES_PER_GUARD: RangeInclusive<u32> = 1..=64;

    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The length in bytes at which a log is full, and the next one begins; 4 KiB to 1 GiB. It
    /// corresponds to the size of the memtable in PebblesDB (§5.1 has 4 MB). Default: a 24th of the
    /// memory budget, from 1 to 16 MiB. Longer logs are merged less often and need more memory for
    /// their indexes; shorter ones the reverse.
    pub fn generation_bytes(mut self, bytes: u64) -> Self {
        self.generation_bytes = Some(bytes);
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
    /// 64. Default: 6. Fewer tables make reads faster, more make writes cheaper. With 1 the tree is
    /// an ordinary log-structured merge tree.
    pub fn max_sstables_per_guard(mut self, tables: u32) -> Self {
        self.max_sstables_per_guard = tables;
        self
    }

    /// The length in bytes at which a log is full; `None` if it follows from the memory budget.
    pub fn get_generation_bytes(&self) -> Option<u64> {
        self.generation_bytes
    }

    /// The target length in bytes of the tables of the last level.
    pub fn get_guard_bytes(&self) -> u64 {
        self.guard_bytes
    }

    /// The maximum number of tables of a guard before some of them are merged.
    pub fn get_max_sstables_per_guard(&self) -> u32 {
        self.max_sstables_per_guard
    }

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "generation_bytes" => self.generation_bytes = Some(bytes(name, value)?),
            "guard_bytes" => self.guard_bytes = bytes(name, value)?,
            "max_sstables_per_guard" => self.max_sstables_per_guard = parse(name, value)?,
            _ => return Err(unknown(LayoutKind::Flsm, name, Self::NAMES)),
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<()> {
        let invalid = |what: String| Err(Error::InvalidArgument(what));
        if let Some(bytes) = self.generation_bytes.filter(|bytes| !Self::GENERATION_BYTES.contains(bytes)) {
            return invalid(format!("generation_bytes of {bytes} is outside 4 KiB to 1 GiB"));
        }
        if !Self::GUARD_BYTES.contains(&self.guard_bytes) {
            return invalid(format!("guard_bytes of {} is outside 4 KiB to 1 GiB", self.guard_bytes));
        }
        if !Self::MAX_SSTABLES_PER_GUARD.contains(&self.max_sstables_per_guard) {
            return invalid(format!(
                "max_sstables_per_guard of {} is outside 1 to 64",
                self.max_sstables_per_guard
            ));
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
        assert_eq!("flsm".parse::<LayoutOptions>().unwrap(), FlsmOptions::new().into());
    }

    #[test]
    fn options_show_what_was_set_and_what_holds_otherwise() {
        let seen = |options: &FlsmOptions| {
            let sizes = (options.get_generation_bytes(), options.get_guard_bytes());
            (sizes, options.get_max_sstables_per_guard())
        };
        assert_eq!(seen(&FlsmOptions::new()), ((None, 16 << 20), 6));
        let set = FlsmOptions::new().generation_bytes(1 << 20).guard_bytes(2 << 20).max_sstables_per_guard(3);
        assert_eq!(seen(&set), ((Some(1 << 20), 2 << 20), 3));
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
            ("flsm:generation_bytes=4095", "generation_bytes of 4095 is outside 4 KiB to 1 GiB"),
            ("flsm:guard_bytes=2GiB", "guard_bytes of 2147483648 is outside 4 KiB to 1 GiB"),
            ("flsm:max_sstables_per_guard=0", "max_sstables_per_guard of 0 is outside 1 to 64"),
            ("flsm:max_sstables_per_guard=65", "max_sstables_per_guard of 65 is outside 1 to 64"),
        ] {
            let options: LayoutOptions = text.parse().unwrap();
            assert!(options.check().unwrap_err().to_string().contains(told), "{text}");
        }
        for text in ["flsm:generation_bytes=4KiB,max_sstables_per_guard=64", "flsm:guard_bytes=1GiB"] {
            text.parse::<LayoutOptions>().unwrap().check().unwrap();
        }
    }
}

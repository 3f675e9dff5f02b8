//! Memory budget of a store that is opened with LevelDB's options.
//!
//! LevelDB takes two write buffers and the block cache. It reads through the page cache, which
//! takes whatever memory the machine has. Cantle keeps to one budget and its own caches. The budget
//! is therefore the sum of LevelDB's, but at least `BUDGET_BYTES_MIN`: in LevelDB's defaults (two
//! buffers of 4 MiB, and a cache of 8 MiB) not even three chunks would find room. A user can set
//! another budget in the environment.

/// Minimum budget in bytes: eight chunks of the default size, the least for which the division of
/// the budget is tuned.
const BUDGET_BYTES_MIN: u64 = 64 << 20;
/// LevelDB's default block cache in bytes.
const CACHE_BYTES: u64 = 8 << 20;
/// LevelDB's default write buffer in bytes.
pub const WRITE_BUFFER_BYTES: u64 = 4 << 20;
/// LevelDB's bounds of a write buffer in bytes.
const WRITE_BUFFER_BYTES_MIN: u64 = 64 << 10;
const WRITE_BUFFER_BYTES_MAX: u64 = 1 << 30;
/// The environment variable with the memory budget.
const VARIABLE: &str = "CANTLE_MEMORY_BUDGET";

/// A chosen memory budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Cantle's own default: a quarter of the machine's memory, at most 4 GiB.
    Automatic,
    /// A number of bytes.
    Bytes(u64),
}

impl Budget {
    /// The budget in the environment; `None` if the variable is not set.
    ///
    /// # Errors
    ///
    /// A message, if the variable is not a budget.
    pub fn from_environment() -> Result<Option<Self>, String> {
        let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else { return Ok(None) };
        let budget = text.to_str().and_then(parse).map(Some);
        budget.ok_or_else(|| {
            let text = text.to_string_lossy();
            format!("{VARIABLE} is {text:?}: give bytes, such as 268435456, 256M or 1G, or auto")
        })
    }

    /// The budget that LevelDB's options result in, in bytes.
    pub fn of_buffers(write_buffer_bytes: u64, cache_bytes: Option<u64>) -> u64 {
        let buffers = 2 * write_buffer_bytes.clamp(WRITE_BUFFER_BYTES_MIN, WRITE_BUFFER_BYTES_MAX);
        buffers.saturating_add(cache_bytes.unwrap_or(CACHE_BYTES)).max(BUDGET_BYTES_MIN)
    }
}

/// Parses bytes with an optional suffix, or `auto`.
fn parse(text: &str) -> Option<Budget> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("auto") {
        return Some(Budget::Automatic);
    }
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let shift = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift).map(Budget::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_have_suffixes() {
        assert_eq!(parse("268435456"), Some(Budget::Bytes(256 << 20)));
        assert_eq!(parse("256M"), parse("268435456"));
        assert_eq!(parse(" 1 GiB "), Some(Budget::Bytes(1 << 30)));
        assert_eq!(parse("Auto"), Some(Budget::Automatic));
        assert!(["", "M", "1.5G", "1T", "-1", "99999999999999G"].iter().all(|text| parse(text).is_none()));
    }

    #[test]
    fn two_write_buffers_and_the_cache_are_the_budget() {
        assert_eq!(Budget::of_buffers(4 << 20, None), 64 << 20);
        assert_eq!(Budget::of_buffers(64 << 20, None), (128 + 8) << 20);
        assert_eq!(Budget::of_buffers(4 << 20, Some(512 << 20)), (8 + 512) << 20);
        assert_eq!(Budget::of_buffers(u64::MAX, Some(u64::MAX)), u64::MAX);
    }
}

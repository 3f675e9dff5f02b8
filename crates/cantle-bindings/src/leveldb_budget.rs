//! How much memory a store may use that is opened by LevelDB's options.
//!
//! LevelDB takes two write buffers and the block cache, and reads through the page cache, which takes what the machine has.
//! Cantle keeps to one budget and its own caches, so their sum is the budget, but never less than `BUDGET_BYTES_MIN`: in LevelDB's
//! defaults (two of 4 MiB and 8 MiB) not even three chunks would find room. Who knows better says so, by the environment.

/// Eight chunks of the default size, and the least that the division of the budget is tuned for.
const BUDGET_BYTES_MIN: u64 = 64 << 20;
/// LevelDB's block cache where none is set.
const CACHE_BYTES: u64 = 8 << 20;
/// LevelDB's write buffer where none is set.
pub const WRITE_BUFFER_BYTES: u64 = 4 << 20;
/// LevelDB's bounds of a write buffer.
const WRITE_BUFFER_BYTES_MIN: u64 = 64 << 10;
const WRITE_BUFFER_BYTES_MAX: u64 = 1 << 30;
const VARIABLE: &str = "CANTLE_MEMORY_BUDGET";

/// A budget, as far as somebody chose one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// What Cantle takes by itself: a quarter of the machine's memory, at most 4 GiB.
    Automatic,
    /// So much.
    Bytes(u64),
}

impl Budget {
    /// What the environment says, if it says anything.
    ///
    /// # Errors
    ///
    /// What is wrong with what it says.
    pub fn from_environment() -> Result<Option<Self>, String> {
        let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) else { return Ok(None) };
        let budget = text.to_str().and_then(parse).map(Some);
        budget.ok_or_else(|| {
            let text = text.to_string_lossy();
            format!("{VARIABLE} is {text:?}: give bytes, such as 268435456, 256M or 1G, or auto")
        })
    }

    /// What LevelDB's own options come to, in bytes.
    pub fn of_buffers(write_buffer_bytes: u64, cache_bytes: Option<u64>) -> u64 {
        let buffers = 2 * write_buffer_bytes.clamp(WRITE_BUFFER_BYTES_MIN, WRITE_BUFFER_BYTES_MAX);
        buffers.saturating_add(cache_bytes.unwrap_or(CACHE_BYTES)).max(BUDGET_BYTES_MIN)
    }
}

/// Bytes, with an optional suffix; or `auto`.
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

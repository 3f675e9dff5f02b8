//! Sizes and times as text: `64MiB`, `1.5g`, `4096`; `10m`, `1.5s`, `20ms`.

use std::time::Duration;

/// Parses a number of bytes with an optional unit: `k`, `m`, `g`, `t` and their `kb`, `kib` forms,
/// in either case, all in powers of 1024, as memory is counted.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("{text:?} is no size: give bytes or a number with KiB, MiB, GiB or TiB, as in 256MiB");
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(1 << shift).ok_or_else(wrong)?,
        Err(_) => {
            let bytes = number.parse::<f64>().map_err(|_| wrong())? * (1u64 << shift) as f64;
            // Every whole number up to 2^53 is exact, and no machine has more bytes.
            if bytes > 9.0e15 {
                return Err(wrong());
            }
            bytes as u64
        }
    };
    Ok(bytes)
}

/// Parses a time: a number with `ms`, `s`, `m` or `h`; seconds without.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time: give a number with ms, s, m or h, as in 10m");
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number = number.parse::<f64>().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::{parse_duration, parse_size};
    use std::time::Duration;

    #[test]
    fn sizes_are_read_with_and_without_units() {
        let cases = [
            ("0", 0),
            ("4096", 4096),
            ("1k", 1024),
            ("64MiB", 64 << 20),
            ("1.5g", 3 << 29),
            ("2 TB", 2 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused_with_an_example() {
        for text in ["", "x", "-1", "1.2.3", "12 parsecs", "99999999999999999999", "20000000000g", "1e3"] {
            assert!(parse_size(text).unwrap_err().contains("256MiB"), "{text}");
        }
    }

    #[test]
    fn times_are_read_with_and_without_units() {
        let cases = [("10m", 600_000), ("1.5s", 1500), ("20ms", 20), ("3", 3000), ("1 h", 3_600_000)];
        for (text, ms) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "1d", "-1s", "1..5s", "99999999999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}

//! Times as people write them, kept as UTC microseconds.
//!
//! A time is RFC 3339 with its offset, `2013-07-04T09:00:00Z`; a date alone is its midnight in UTC.
//! Refused, each in words of its own: a time without offset, a leap second (second 60), a day that
//! the calendar lacks, a year that four digits do not hold, and what is finer than a microsecond,
//! unless the caller rounds it.

use clap::ValueEnum;
use jiff::{RoundMode, Timestamp, TimestampRound, Unit, civil, tz::Offset};

/// The rounding of a time that is finer than a microsecond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Round {
    /// Not at all: an error
    #[default]
    #[value(skip)]
    Exact,
    /// The nearest microsecond
    Nearest,
    /// The microsecond before it
    Down,
    /// The microsecond after it
    Up,
}

/// Completes "the column is …".
pub(super) const FINER: &str = "finer than a microsecond";
const FORM: &str = "not an RFC 3339 time such as 2013-07-04T09:00:00Z";

/// The UTC microseconds since 1970 of a time; an error completes "the column is …".
pub(super) fn parse(text: &str, round: Round) -> Result<i64, String> {
    if is_leap_second(text) {
        return Err("in a leap second (second 60), which no time here can hold".into());
    }
    let time = match Shape::of(text) {
        Some(Shape { time: false, .. }) => text
            .parse::<civil::Date>()
            .and_then(|date| Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)))
            .map_err(|_| out_of_range(text))?,
        Some(Shape { time: true, offset: false }) => {
            return Err(format!("{FORM}: its offset is missing, Z for UTC"));
        }
        Some(_) => text.parse().map_err(|_| out_of_range(text))?,
        None => text.parse().map_err(|_| FORM.to_owned())?,
    };
    rounded(time, round).map(Timestamp::as_microsecond)
}

/// The text of a time; none outside of the years that [`parse`] takes.
pub(super) fn print(micros: i64) -> Option<String> {
    Some(Timestamp::from_microsecond(micros).ok()?.to_string())
}

fn rounded(time: Timestamp, round: Round) -> Result<Timestamp, String> {
    if time.subsec_nanosecond() % 1000 == 0 {
        return Ok(time);
    }
    let mode = match round {
        Round::Exact => return Err(FINER.into()),
        Round::Nearest => RoundMode::HalfExpand,
        Round::Down => RoundMode::Floor,
        Round::Up => RoundMode::Ceil,
    };
    time.round(TimestampRound::new().smallest(Unit::Microsecond).mode(mode))
        .map_err(|_| "out of range: years go from -9999 to 9999".to_owned())
}

fn out_of_range(text: &str) -> String {
    let digits = text.trim_start_matches(['+', '-']).split('-').next().map_or(0, str::len);
    if digits > 4 {
        "out of range: years go from -9999 to 9999".into()
    } else {
        "out of range: there is no such day or time".into()
    }
}

/// The library that parses times takes second 60 for 59.
fn is_leap_second(text: &str) -> bool {
    let Some((_, time)) = text.split_once(['T', 't', ' ']) else { return false };
    let digits: Vec<char> = time.chars().filter(|&c| c != ':').take_while(char::is_ascii_digit).collect();
    digits.get(4..6) == Some(&['6', '0'])
}

/// The parts of a text that looks like a date or a time.
struct Shape {
    time: bool,
    offset: bool,
}

impl Shape {
    fn of(text: &str) -> Option<Self> {
        let digits = |text: &str, lengths: std::ops::RangeInclusive<usize>| {
            lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let (date, rest) = match text.split_once(['T', 't', ' ']) {
            Some((date, rest)) => (date, Some(rest)),
            None => (text, None),
        };
        let date = date.strip_prefix(['+', '-']).unwrap_or(date);
        let mut parts = date.split('-');
        let is_date = digits(parts.next()?, 4..=12)
            && digits(parts.next()?, 2..=2)
            && digits(parts.next()?, 2..=2)
            && parts.next().is_none();
        if !is_date {
            return None;
        }
        let Some(rest) = rest else { return Some(Self { time: false, offset: false }) };
        let end = rest.find(|c: char| !(c.is_ascii_digit() || matches!(c, ':' | '.'))).unwrap_or(rest.len());
        let (time, offset) = rest.split_at(end);
        let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
        let is_time = (2..=3).contains(&clock.split(':').count())
            && clock.split(':').all(|part| digits(part, 2..=2))
            && digits(fraction, 1..=9);
        let is_offset = match offset.as_bytes() {
            [] | [b'Z' | b'z'] => true,
            [b'+' | b'-', rest @ ..] => {
                let rest: Vec<u8> = rest.iter().copied().filter(|&byte| byte != b':').collect();
                matches!(rest.len(), 2 | 4) && rest.iter().all(u8::is_ascii_digit)
            }
            _ => false,
        };
        (is_time && is_offset).then_some(Self { time: true, offset: !offset.is_empty() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_its_midnight_in_utc() {
        assert_eq!(parse("2013-07-04", Round::Exact), parse("2013-07-04T00:00:00Z", Round::Exact));
        assert_eq!(parse("1970-01-02", Round::Exact), Ok(86_400_000_000));
        assert_eq!(parse("-000001-03-01", Round::Exact), parse("-000001-03-01T00:00:00Z", Round::Exact));
    }

    #[test]
    fn a_time_is_rounded_only_by_name() {
        let text = |fraction: &str| format!("1969-12-31T23:59:59.{fraction}Z");
        assert_eq!(parse(&text("9999995"), Round::Exact), Err(FINER.to_owned()));
        for (fraction, rounded) in [("9999986", [-1, -2, -1]), ("9999984", [-2, -2, -1]), ("999998", [-2; 3])]
        {
            let all = [Round::Nearest, Round::Down, Round::Up].map(|round| parse(&text(fraction), round));
            assert_eq!(all, rounded.map(Ok), "{fraction}");
        }
    }

    #[test]
    fn each_wrong_time_is_refused_in_its_own_words() {
        for (text, says) in [
            ("2016-12-31T23:59:60Z", "leap second"),
            ("2016-12-31t23:59:60.5+00:00", "leap second"),
            ("20161231T235960Z", "leap second"),
            ("2013-02-30", "out of range: there is no such day"),
            ("2013-13-01T00:00:00Z", "out of range: there is no such day"),
            ("2013-07-04T24:00:00Z", "out of range: there is no such day"),
            ("10000-01-01", "years go from -9999 to 9999"),
            ("+010000-01-01T00:00:00Z", "years go from -9999 to 9999"),
            ("2013-07-04T09:00:00", "RFC 3339 time such as 2013-07-04T09:00:00Z: its offset is missing"),
            ("2013-07-04 09:00", "its offset is missing"),
            ("yesterday", "RFC 3339"),
            ("2013-7-4", "RFC 3339"),
            ("1372928400", "RFC 3339"),
            ("", "RFC 3339"),
            ("Té", "RFC 3339"),
        ] {
            let error = parse(text, Round::Nearest).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_printed_time_parses_to_itself() {
        for micros in [0, -1, 1_372_928_400_000_000, 253_000_000_000_999_999, -377_000_000_000_000_000] {
            let text = print(micros).unwrap();
            assert_eq!(parse(&text, Round::Exact), Ok(micros), "{text}");
        }
        assert_eq!(print(i64::MAX), None);
    }
}

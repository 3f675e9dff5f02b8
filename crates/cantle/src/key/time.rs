//! Times in keys: microseconds since 1970-01-01T00:00:00Z.

use super::builder::Builder;
use super::error::PartError;
use super::kind;
use super::part::Part;
use super::value::{FromKey, InfallibleKey, ToKey};
use crate::types::error::{Error, Result};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time as keys have it: microseconds since 1970-01-01T00:00:00Z, in the years -290308 to 294247.
///
/// In a key it is an integer, in every language and in the command's `time` columns. A clock's
/// times are finer. Each way to convert one says by its name how it rounds:
///
/// ```
/// use cantle::key::{self, Time};
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let precise = UNIX_EPOCH + Duration::from_nanos(1_372_928_400_000_000_789);
/// assert_eq!(Time::floor(precise)?.to_string(), "2013-07-04T09:00:00Z");
/// assert_eq!(Time::ceil(precise)?.micros(), 1_372_928_400_000_001);
/// assert!(Time::exact(precise).is_err());
///
/// let key = key::encode(&("EWR", Time::floor(precise)?));
/// assert_eq!(key, key::encode(&("EWR", 1_372_928_400_000_000i64)));
/// // A time of another crate is a part of a key as well, if it is no finer than a microsecond.
/// assert_eq!(key, key::try_encode(&("EWR", UNIX_EPOCH + Duration::from_secs(1_372_928_400)))?);
/// assert!(key::try_encode(&("EWR", precise)).is_err());
/// # Ok::<(), cantle::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

mod sealed {
    pub trait Sealed {
        /// Whole seconds since 1970-01-01T00:00:00Z, rounded down, and the nanoseconds beyond.
        /// `None` if there are too many.
        fn since_epoch(&self) -> Option<(i64, u32)>;
    }
}

/// A time of the standard library or, with the feature `jiff`, of that crate. Sealed.
pub trait Moment: sealed::Sealed {}

impl<T: sealed::Sealed> Moment for T {}

impl sealed::Sealed for SystemTime {
    fn since_epoch(&self) -> Option<(i64, u32)> {
        let seconds = |duration: Duration| i64::try_from(duration.as_secs()).ok();
        match self.duration_since(UNIX_EPOCH) {
            Ok(after) => Some((seconds(after)?, after.subsec_nanos())),
            Err(error) => {
                let before = error.duration();
                let down = before.subsec_nanos() > 0;
                let nanos = if down { 1_000_000_000 - before.subsec_nanos() } else { 0 };
                Some((seconds(before)?.checked_neg()?.checked_sub(i64::from(down))?, nanos))
            }
        }
    }
}

fn out_of_range() -> PartError {
    PartError::new("the time is out of range: times in keys lie in the years -290308 to 294247")
}

/// The time of these seconds and nanoseconds, rounded down, and the nanoseconds beyond.
fn split(time: &impl Moment) -> Result<(i64, u32), PartError> {
    let (seconds, nanos) = time.since_epoch().ok_or_else(out_of_range)?;
    let micros = i128::from(seconds) * 1_000_000 + i128::from(nanos / 1_000);
    Ok((micros.try_into().map_err(|_| out_of_range())?, nanos % 1_000))
}

fn exact(time: &impl Moment) -> Result<Time, PartError> {
    match split(time)? {
        (micros, 0) => Ok(Time(micros)),
        _ => Err(PartError::new(format!(
            "the time {} is finer than a microsecond: round it by cantle::key::Time::floor, ceil or round",
            Shown(time)
        ))),
    }
}

impl Time {
    /// The earliest time.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest time.
    pub const MAX: Self = Self(i64::MAX);

    /// A time by its microseconds since 1970-01-01T00:00:00Z.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The time, if it is no finer than a microsecond.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::Error::InvalidArgument) if it is, or if it is out of range.
    pub fn exact(time: impl Moment) -> Result<Self> {
        exact(&time).map_err(PartError::refusal)
    }

    /// The last microsecond that is not after the time.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::Error::InvalidArgument) if the time is out of range.
    pub fn floor(time: impl Moment) -> Result<Self> {
        Ok(Self(split(&time).map_err(PartError::refusal)?.0))
    }

    /// The first microsecond that is not before the time. Fails as [`floor`](Self::floor) does.
    pub fn ceil(time: impl Moment) -> Result<Self> {
        Self::up_if(time, |rest| rest > 0)
    }

    /// The nearest microsecond, the later one of two. Fails as [`floor`](Self::floor) does.
    pub fn round(time: impl Moment) -> Result<Self> {
        Self::up_if(time, |rest| rest >= 500)
    }

    fn up_if(time: impl Moment, up: impl FnOnce(u32) -> bool) -> Result<Self> {
        let (micros, rest) = split(&time).map_err(PartError::refusal)?;
        let micros = micros.checked_add(i64::from(up(rest)));
        micros.map(Self).ok_or_else(|| out_of_range().refusal())
    }

    pub(super) fn of_part(part: &Part) -> Result<Self, PartError> {
        match part {
            Part::Int(micros) => Ok(Self(*micros)),
            other => Err(PartError::expected("a time: an integer of 64 bits", other)),
        }
    }
}

/// Microseconds are exact.
impl TryFrom<Time> for SystemTime {
    type Error = Error;
    fn try_from(time: Time) -> Result<Self> {
        let distance = Duration::from_micros(time.0.unsigned_abs());
        let at = if time.0 < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
        at.ok_or_else(|| {
            Error::InvalidArgument(format!("the time {time} is out of range of this system's clock"))
        })
    }
}

impl TryFrom<SystemTime> for Time {
    type Error = Error;
    fn try_from(time: SystemTime) -> Result<Self> {
        Self::exact(time)
    }
}

impl ToKey for Time {
    type Kind = kind::Time;
    fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
        Ok(key.int(self.0))
    }
}
impl InfallibleKey for Time {}
impl FromKey for Time {
    fn from_part(part: Part) -> Result<Self, PartError> {
        Self::of_part(&part)
    }
}

impl ToKey for SystemTime {
    type Kind = kind::Time;
    fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
        exact(self)?.append_to(key)
    }
}
impl FromKey for SystemTime {
    fn from_part(part: Part) -> Result<Self, PartError> {
        Time::of_part(&part)?.try_into().map_err(|error: Error| PartError::new(error.to_string()))
    }
}

/// RFC 3339 in UTC, with as many digits of the second as it has, and a sign before years of other
/// than four digits.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.rem_euclid(1_000_000) as u32;
        write_time(f, self.0.div_euclid(1_000_000), micros * 1_000)
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

struct Shown<'a, T>(&'a T);

impl<T: Moment> fmt::Display for Shown<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.since_epoch() {
            Some((seconds, nanos)) => write_time(f, seconds, nanos),
            None => f.write_str("out of range"),
        }
    }
}

fn write_time(f: &mut fmt::Formatter<'_>, seconds: i64, nanos: u32) -> fmt::Result {
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    match year {
        0..=9999 => write!(f, "{year:04}")?,
        _ => write!(f, "{year:+05}")?,
    }
    let second = seconds.rem_euclid(86_400);
    write!(f, "-{month:02}-{day:02}T{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)?;
    if nanos > 0 {
        write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0'))?;
    }
    f.write_str("Z")
}

/// Year, month and day of the proleptic Gregorian calendar, by the number of days since 1970-01-01.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years that begin in March have the leap day at their end; 400 of them have 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months from March on have 153 days in each five.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let in_next_year = month >= 10;
    let month = if in_next_year { month - 9 } else { month + 3 };
    (era * 400 + year + i64::from(in_next_year), month, day)
}

#[cfg(feature = "jiff")]
mod of_jiff {
    use super::{Error, Result, Time, exact, kind, sealed};
    use crate::key::builder::Builder;
    use crate::key::error::PartError;
    use crate::key::part::Part;
    use crate::key::value::{FromKey, InfallibleKey, ToKey};
    use jiff::civil::{Date, DateTime};
    use jiff::{Timestamp, Zoned};

    impl sealed::Sealed for Timestamp {
        fn since_epoch(&self) -> Option<(i64, u32)> {
            let (seconds, nanos) = (self.as_second(), self.subsec_nanosecond());
            if nanos < 0 {
                return Some((seconds - 1, u32::try_from(nanos + 1_000_000_000).ok()?));
            }
            Some((seconds, u32::try_from(nanos).ok()?))
        }
    }

    /// The moment, without its time zone.
    impl sealed::Sealed for Zoned {
        fn since_epoch(&self) -> Option<(i64, u32)> {
            self.timestamp().since_epoch()
        }
    }

    /// As if in UTC.
    impl sealed::Sealed for DateTime {
        fn since_epoch(&self) -> Option<(i64, u32)> {
            // Within some hours of the calendar's ends it is no timestamp, but it has seconds all
            // the same.
            let day = i64::from((self.date() - Date::constant(1970, 1, 1)).get_days());
            let second =
                i64::from(self.hour()) * 3_600 + i64::from(self.minute()) * 60 + i64::from(self.second());
            Some((day * 86_400 + second, u32::try_from(self.subsec_nanosecond()).ok()?))
        }
    }

    fn out_of_jiff(time: Time) -> PartError {
        PartError::new(format!("the time {time} is out of range: jiff has the years -9999 to 9999"))
    }

    fn timestamp(time: Time) -> Result<Timestamp, PartError> {
        Timestamp::from_microsecond(time.0).map_err(|_| out_of_jiff(time))
    }

    fn date_time(time: Time) -> Result<DateTime, PartError> {
        let day = time.0.div_euclid(86_400_000_000);
        let micros = time.0.rem_euclid(86_400_000_000);
        i32::try_from(day)
            .ok()
            .and_then(|day| {
                Date::constant(1970, 1, 1).checked_add(jiff::Span::new().try_days(day).ok()?).ok()
            })
            .and_then(|date| date.at(0, 0, 0, 0).checked_add(jiff::SignedDuration::from_micros(micros)).ok())
            .ok_or_else(|| out_of_jiff(time))
    }

    impl ToKey for Timestamp {
        type Kind = kind::Time;
        fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
            exact(self)?.append_to(key)
        }
    }
    impl FromKey for Timestamp {
        fn from_part(part: Part) -> Result<Self, PartError> {
            timestamp(Time::of_part(&part)?)
        }
    }
    impl TryFrom<Timestamp> for Time {
        type Error = Error;
        fn try_from(time: Timestamp) -> Result<Self> {
            Self::exact(time)
        }
    }
    impl TryFrom<Time> for Timestamp {
        type Error = Error;
        fn try_from(time: Time) -> Result<Self> {
            timestamp(time).map_err(PartError::refusal)
        }
    }

    /// As if in UTC: to be read back without a time zone.
    impl ToKey for DateTime {
        type Kind = kind::Time;
        fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
            exact(self)?.append_to(key)
        }
    }
    impl FromKey for DateTime {
        fn from_part(part: Part) -> Result<Self, PartError> {
            date_time(Time::of_part(&part)?)
        }
    }

    /// The time at which the day begins in UTC: it sorts before the times of that day.
    impl ToKey for Date {
        type Kind = kind::Date;
        fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
            exact(&self.to_datetime(jiff::civil::Time::midnight()))?.append_to(key)
        }
    }
    impl InfallibleKey for Date {}
    impl FromKey for Date {
        fn from_part(part: Part) -> Result<Self, PartError> {
            let time = Time::of_part(&part)?;
            if time.0.rem_euclid(86_400_000_000) != 0 {
                return Err(PartError::new(format!(
                    "the time {time} is not a date: it is not midnight in UTC"
                )));
            }
            Ok(date_time(time)?.date())
        }
    }
}

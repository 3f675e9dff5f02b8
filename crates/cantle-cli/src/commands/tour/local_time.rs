//! New York's clock: flights leave by it, keys hold UTC.

use crate::failure::{Failure, Outcome};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// The rule of the eastern United States since 2007, so that no time zone database is asked for.
const NEW_YORK: &str = "EST5EDT,M3.2.0,M11.1.0";

/// Converts between microseconds since 1970 in UTC, as keys hold them, and New York's clock.
pub(crate) struct Clock(TimeZone);

fn wrong(error: jiff::Error) -> Failure {
    Failure::Failed(format!("a time that no calendar has: {error}"))
}

impl Clock {
    pub(crate) fn new_york() -> Outcome<Self> {
        TimeZone::posix(NEW_YORK).map(Self).map_err(wrong)
    }

    /// The local time at a moment.
    pub(crate) fn local(&self, micros: i64) -> Outcome<Zoned> {
        Ok(Timestamp::from_microsecond(micros).map_err(wrong)?.to_zoned(self.0.clone()))
    }

    /// When the clock shows `hour` o'clock of `date`.
    pub(crate) fn micros(&self, date: Date, hour: i8) -> Outcome<i64> {
        let zoned = date.at(hour, 0, 0, 0).to_zoned(self.0.clone()).map_err(wrong)?;
        Ok(zoned.timestamp().as_microsecond())
    }
}

/// RFC 3339 in UTC, as the command line takes it.
pub(crate) fn rfc3339(micros: i64) -> Outcome<String> {
    Ok(Timestamp::from_microsecond(micros).map_err(wrong)?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    #[test]
    fn winter_is_five_hours_behind_and_summer_four() {
        let clock = Clock::new_york().unwrap();
        for (day, utc) in
            [(date(2013, 1, 14), "2013-01-14T11:00:00Z"), (date(2013, 7, 4), "2013-07-04T10:00:00Z")]
        {
            let micros = clock.micros(day, 6).unwrap();
            assert_eq!(rfc3339(micros).unwrap(), utc);
            assert_eq!(clock.local(micros).unwrap().strftime("%F %R").to_string(), format!("{day} 06:00"));
        }
    }
}

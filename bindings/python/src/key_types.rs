//! Python's types of times, UUIDs and large integers in keys.
//!
//! The stable interface of Python 3.9 has none of these types, so they are looked up by name, once.

use crate::errors;
use cantle::key::{BigInt, Part};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyInt, PyType};

const MICROS_OF_DAY: i64 = 86_400_000_000;
/// The number that Python gives 1970-01-01.
const EPOCH_ORDINAL: i64 = 719_163;

pub struct KeyTypes {
    pub datetime: Py<PyType>,
    pub date: Py<PyType>,
    pub uuid: Py<PyType>,
    pub float32: Py<PyType>,
    pub versionstamp: Py<PyType>,
    timedelta: Py<PyType>,
    /// 1970-01-01T00:00:00Z.
    epoch: Py<PyAny>,
}

impl KeyTypes {
    pub fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static TYPES: PyOnceLock<KeyTypes> = PyOnceLock::new();
        TYPES.get_or_try_init(py, || {
            let datetime = PyModule::import(py, "datetime")?;
            let of = |module: &Bound<'_, PyModule>, name: &str| -> PyResult<Py<PyType>> {
                Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind())
            };
            let keys = PyModule::import(py, "cantle._keys")?;
            let utc = datetime.getattr("timezone")?.getattr("utc")?;
            let epoch = datetime.getattr("datetime")?.call1((1970, 1, 1, 0, 0, 0, 0, utc))?.unbind();
            Ok(Self {
                datetime: of(&datetime, "datetime")?,
                date: of(&datetime, "date")?,
                uuid: of(&PyModule::import(py, "uuid")?, "UUID")?,
                float32: of(&keys, "Float32")?,
                versionstamp: of(&keys, "Versionstamp")?,
                timedelta: of(&datetime, "timedelta")?,
                epoch,
            })
        })
    }

    /// The part that an object of one of these types is.
    pub fn part_of(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<Part>> {
        let py = object.py();
        // Times are dates as well.
        if object.is_instance(self.datetime.bind(py))? {
            return self.micros_of(object).map(|micros| Some(Part::Int(micros)));
        }
        if object.is_instance(self.date.bind(py))? {
            let ordinal: i64 = object.call_method0("toordinal")?.extract()?;
            return Ok(Some(Part::Int((ordinal - EPOCH_ORDINAL) * MICROS_OF_DAY)));
        }
        if object.is_instance(self.uuid.bind(py))? {
            return Ok(Some(Part::Uuid(object.getattr("bytes")?.extract()?)));
        }
        Ok(None)
    }

    fn micros_of(&self, time: &Bound<'_, PyAny>) -> PyResult<i64> {
        if time.call_method0("utcoffset")?.is_none() {
            return Err(errors::invalid(&format!(
                "the time {time} has no time zone: give it one, as by time.replace(tzinfo=timezone.utc)"
            )));
        }
        // Those of pandas are times with a finer part.
        if let Ok(nanos) = time.getattr("nanosecond")
            && nanos.is_truthy()?
        {
            return Err(errors::invalid(&format!(
                "the time {time} is finer than a microsecond: round it, as by time.floor(\"us\")"
            )));
        }
        let since = time.sub(&self.epoch)?;
        let field = |name: &str| since.getattr(name)?.extract::<i64>();
        Ok(field("days")? * MICROS_OF_DAY + field("seconds")? * 1_000_000 + field("microseconds")?)
    }

    /// The time of an integer in a key, in UTC.
    pub fn time<'py>(&self, py: Python<'py>, micros: i64) -> PyResult<Bound<'py, PyAny>> {
        let since = self.timedelta.bind(py).call1((0, 0, micros));
        since.and_then(|since| self.epoch.bind(py).add(since)).map_err(|error| {
            if !error.is_instance_of::<PyOverflowError>(py) {
                return error;
            }
            errors::invalid(&format!(
                "the time of {micros} microseconds is out of range: Python has the years 1 to 9999"
            ))
        })
    }

    /// The date of an integer in a key, if a day begins then in UTC.
    pub fn date<'py>(&self, py: Python<'py>, micros: i64) -> PyResult<Option<Bound<'py, PyAny>>> {
        if micros.rem_euclid(MICROS_OF_DAY) != 0 {
            return Ok(None);
        }
        self.time(py, micros)?.call_method0("date").map(Some)
    }

    pub fn uuid<'py>(&self, py: Python<'py>, uuid: &[u8; 16]) -> PyResult<Bound<'py, PyAny>> {
        self.uuid.bind(py).call1((py.None(), PyBytes::new(py, uuid)))
    }
}

/// An integer of any size that a key can hold.
pub fn integer_part(int: &Bound<'_, PyInt>) -> PyResult<Part> {
    if let Ok(int) = int.extract() {
        return Ok(Part::Int(int));
    }
    let bits: usize = int.call_method0("bit_length")?.extract()?;
    let magnitude = int.call_method0("__abs__")?.call_method1("to_bytes", (bits.div_ceil(8), "big"))?;
    BigInt::from_magnitude(int.lt(0)?, magnitude.cast::<PyBytes>()?.as_bytes())
        .map(Part::from)
        .ok_or_else(|| errors::invalid(&format!("an integer in a key has at most 2,040 bits, not {bits}")))
}

pub fn integer<'py>(py: Python<'py>, int: &BigInt) -> PyResult<Bound<'py, PyAny>> {
    let magnitude = PyBytes::new(py, int.magnitude());
    let absolute = py.get_type::<PyInt>().call_method1("from_bytes", (magnitude, "big"))?;
    if int.is_negative() { absolute.neg() } else { Ok(absolute) }
}

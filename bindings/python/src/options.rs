//! Options by name. `cantle/__init__.py` and `cantle/types.py` have their types; the library's
//! `Options` and
//! `KeyspaceOptions` document them.

use crate::comparator::PythonOrder;
use crate::errors;
use cantle::{Compression, Durability, KeyspaceOptions, LayoutOptions, Options};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The comparators of a store, by name.
pub type Orders = HashMap<String, Arc<PythonOrder>>;

/// Memory and background threads that several stores share: pass it to open as `resources`.
#[pyclass(frozen, module = "cantle")]
pub struct Resources(cantle::Resources);

#[pymethods]
impl Resources {
    #[new]
    #[pyo3(signature = (memory_budget, background_threads))]
    fn new(memory_budget: &Bound<'_, PyAny>, background_threads: &Bound<'_, PyAny>) -> PyResult<Self> {
        let threads = whole("background_threads", background_threads, 1)? as usize;
        Ok(Self(cantle::Resources::new(whole("memory_budget", memory_budget, 1)?, threads)))
    }

    /// Bytes that all stores with these resources cache and buffer together.
    #[getter]
    fn memory_budget(&self) -> u64 {
        self.0.memory_budget()
    }

    /// Background threads that all stores with these resources share.
    #[getter]
    fn background_threads(&self) -> usize {
        self.0.background_threads()
    }

    fn __repr__(&self) -> String {
        let (bytes, threads) = (self.memory_budget(), self.background_threads());
        format!("cantle.Resources(memory_budget={bytes}, background_threads={threads})")
    }
}

/// Keyword arguments that are options of a store.
pub struct Given<'py> {
    options: Option<Bound<'py, PyDict>>,
}

impl<'py> Given<'py> {
    pub fn new(options: Option<&Bound<'py, PyDict>>) -> PyResult<Self> {
        // Known options are taken out one by one; the rest is unknown.
        Ok(Self { options: options.map(|options| options.copy()).transpose()? })
    }

    /// The option of this name, unless it is `None`.
    fn take(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(options) = &self.options else { return Ok(None) };
        let Some(value) = options.get_item(name)? else { return Ok(None) };
        options.del_item(name)?;
        Ok((!value.is_none()).then_some(value))
    }

    fn number(&self, name: &str) -> PyResult<Option<u64>> {
        self.take(name)?.map(|value| whole(name, &value, 0)).transpose()
    }

    fn flag(&self, name: &str) -> PyResult<Option<bool>> {
        let Some(value) = self.take(name)? else { return Ok(None) };
        match value.cast::<PyBool>() {
            Ok(flag) => Ok(Some(flag.is_true())),
            Err(_) => Err(wrong_type(name, "a bool", &value)),
        }
    }

    pub fn text(&self, name: &str) -> PyResult<Option<String>> {
        let Some(value) = self.take(name)? else { return Ok(None) };
        value.extract().map(Some).map_err(|_| wrong_type(name, "a str", &value))
    }

    fn real(&self, name: &str) -> PyResult<Option<f64>> {
        let Some(value) = self.take(name)? else { return Ok(None) };
        if value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyInt>() {
            value.extract().map(Some)
        } else {
            Err(wrong_type(name, "a number", &value))
        }
    }

    /// Refuses options that were not taken.
    pub fn finish(&self) -> PyResult<()> {
        match self.options.as_ref().and_then(|options| options.keys().iter().next()) {
            Some(name) => Err(PyTypeError::new_err(format!("there is no option {name}"))),
            None => Ok(()),
        }
    }

    /// `comparators`: a dict from names to functions.
    pub fn orders(&self) -> PyResult<Orders> {
        let Some(given) = self.take("comparators")? else { return Ok(Orders::new()) };
        let Ok(given) = given.cast::<PyDict>() else {
            return Err(wrong_type("comparators", "a dict from names to functions", &given));
        };
        let order = |(name, function): (Bound<'py, PyAny>, Bound<'py, PyAny>)| {
            let name: String = name.extract()?;
            Ok((name.clone(), PythonOrder::new(name, &function)?))
        };
        given.iter().map(order).collect()
    }

    /// Options of the store, and the order of its default keyspace.
    pub fn store(&self, orders: &Orders) -> PyResult<(Options, Option<Arc<PythonOrder>>)> {
        let options = self.store_alone(orders)?;
        let (keyspace, order) = self.keyspace(orders)?;
        Ok((options.default_keyspace(keyspace), order))
    }

    /// Options of the store, and options of a keyspace other than the default one.
    pub fn split(&self, orders: &Orders) -> PyResult<(Options, KeyspaceOptions)> {
        Ok((self.store_alone(orders)?, self.keyspace(orders)?.0))
    }

    fn store_alone(&self, orders: &Orders) -> PyResult<Options> {
        let mut options = Options::new();
        if let Some(bytes) = self.number("memory_budget")? {
            options = options.memory_budget(bytes);
        }
        if let Some(durability) = self.text("durability")? {
            options = options.durability(self::durability(&durability)?);
        }
        if let Some(on) = self.flag("create_if_missing")? {
            options = options.create_if_missing(on);
        }
        if let Some(on) = self.flag("error_if_exists")? {
            options = options.error_if_exists(on);
        }
        if let Some(on) = self.flag("beside_other_files")? {
            options = options.beside_other_files(on);
        }
        if let Some(on) = self.flag("keep_left_behind")? {
            options = options.keep_left_behind(on);
        }
        if let Some(on) = self.flag("read_only")? {
            options = options.read_only(on);
        }
        if let Some(threads) = self.take("background_threads")? {
            options = options.background_threads(whole("background_threads", &threads, 1)? as usize);
        }
        if let Some(seconds) = self.real("checkpoint_interval")? {
            let interval = Duration::try_from_secs_f64(seconds).map_err(|_| {
                errors::invalid(&format!("checkpoint_interval is in seconds: {seconds} is no such time"))
            })?;
            options = options.checkpoint_interval(interval);
        }
        if let Some(on) = self.flag("monitor")? {
            options = options.monitor(on);
        }
        if let Some(on) = self.flag("write_buffer")? {
            options = options.write_buffer(on);
        }
        if let Some(on) = self.flag("io_uring")? {
            options = options.io_uring(on);
        }
        if let Some(resources) = self.take("resources")? {
            let Ok(resources) = resources.cast::<Resources>() else {
                return Err(wrong_type("resources", "cantle.Resources", &resources));
            };
            options = options.resources(resources.get().0.clone());
        }
        for order in orders.values() {
            options = options.comparator(order.clone());
        }
        Ok(options)
    }

    /// Options of a keyspace, and its order if one is named.
    pub fn keyspace(&self, orders: &Orders) -> PyResult<(KeyspaceOptions, Option<Arc<PythonOrder>>)> {
        let mut options = KeyspaceOptions::new();
        if let Some(layout) = self.text("layout")? {
            let layout =
                layout.parse::<LayoutOptions>().map_err(|error| errors::invalid(&error.to_string()))?;
            options = options.layout(layout);
        }
        let level = self.take("compression_level")?;
        match (self.text("compression")?.as_deref(), level) {
            (None, None) => {}
            (Some("zstd"), level) => {
                let level = level.map_or(Ok(3), |level| whole("compression_level", &level, 1))?;
                options = options.compression(Compression::Zstd(level.try_into().unwrap_or(i32::MAX)));
            }
            (_, Some(_)) => return Err(errors::invalid("compression_level goes with compression=\"zstd\"")),
            (Some(other), None) => {
                let known =
                    [("none", Compression::None), ("lz4", Compression::Lz4), ("zstd", Compression::Zstd(3))];
                options = options.compression(one_of("compression", other, &known)?);
            }
        }
        if let Some(bound) = self.real("space_amplification")? {
            options = options.space_amplification(bound);
        }
        if let Some(on) = self.flag("row_cache")? {
            options = options.row_cache(on);
        }
        let Some(name) = self.text("comparator")? else { return Ok((options, None)) };
        let Some(order) = orders.get(&name) else {
            return Err(errors::invalid(&format!(
                "no comparator {name:?} was given: open the store with comparators={{{name:?}: function}}"
            )));
        };
        Ok((options.comparator(order.clone()), Some(order.clone())))
    }
}

/// A durability by its name.
pub fn durability(name: &str) -> PyResult<Durability> {
    let known =
        [("buffered", Durability::Buffered), ("process", Durability::Process), ("sync", Durability::Sync)];
    one_of("durability", name, &known)
}

/// The value of the name that was given.
pub fn one_of<T: Copy>(option: &str, given: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(name, _)| *name == given);
    found.map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| format!("{name:?}")).collect();
        errors::invalid(&format!("{option} is {}, not {given:?}", names.join(" or ")))
    })
}

/// A whole number, at least `least`.
pub fn whole(name: &str, value: &Bound<'_, PyAny>, least: u64) -> PyResult<u64> {
    if !value.is_instance_of::<PyInt>() || value.is_instance_of::<PyBool>() {
        return Err(wrong_type(name, "an int", value));
    }
    match value.extract::<u64>() {
        Ok(number) if number >= least => Ok(number),
        _ => Err(errors::invalid(&format!("{name} is a number from {least} to 2**64 - 1, not {value}"))),
    }
}

fn wrong_type(name: &str, wanted: &str, value: &Bound<'_, PyAny>) -> PyErr {
    match value.get_type().name() {
        Ok(given) => PyTypeError::new_err(format!("{name} is {wanted}, not {given}")),
        Err(error) => error,
    }
}

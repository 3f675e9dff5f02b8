//! Cantle.

use super::{Durability, Engine, Figures, Opened, Settings, Spec};
use crate::failure::{Failure, Result};
use cantle::stats::{KeyspaceStats, LayoutStats};
use cantle::{Db, KeyspaceOptions, LayoutKind, LayoutOptions, Options};
use std::collections::BTreeMap;

struct Cantle(Db);

/// Opens Cantle with its defaults, changed by the spec's settings.
pub fn open(spec: &Spec, settings: &Settings) -> Result<Opened> {
    open_over(LayoutOptions::from, "defaults", spec, settings)
}

/// Opens Cantle with the settings of the published EvenDB, changed by the spec's settings.
pub fn open_published(spec: &Spec, settings: &Settings) -> Result<Opened> {
    open_over(LayoutOptions::as_published, "LayoutOptions::as_published", spec, settings)
}

/// `layout=NAME` names the layout. A setting that belongs neither to the store nor to all keyspaces
/// is an option of the layout.
fn open_over(
    variant: fn(LayoutKind) -> LayoutOptions,
    about: &str,
    spec: &Spec,
    settings: &Settings,
) -> Result<Opened> {
    let (mut options, mut keyspace) = (Options::new(), KeyspaceOptions::new());
    let named = spec.settings.iter().find(|(name, _)| **name == *"layout");
    let kind = named.map(|(_, name)| name.parse::<LayoutKind>()).transpose()?;
    let mut layout = variant(kind.unwrap_or_default());
    for (name, value) in &spec.settings {
        let wrong = || Failure(format!("{name}={value} is no setting of Cantle"));
        let on = || match &**value {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(wrong()),
        };
        match &**name {
            "write_buffer" => options = options.write_buffer(on()?),
            "row_cache" => keyspace = keyspace.row_cache(on()?),
            "space_amplification" => keyspace = keyspace.space_amplification(value.parse()?),
            "layout" => {}
            _ => layout = layout.set(name, value).map_err(|_| wrong())?,
        }
    }
    let keyspace = keyspace.layout(layout);
    let durability = match settings.durability {
        Durability::Process => cantle::Durability::Process,
        Durability::Sync => cantle::Durability::Sync,
    };
    let options = options
        .memory_budget(settings.budget_bytes)
        .durability(durability)
        .background_threads(settings.background_threads)
        .default_keyspace(keyspace);
    let mut configuration = format!("{about}; memory_budget {}", settings.budget_bytes);
    spec.settings.iter().for_each(|(name, value)| configuration += &format!("; {name} {value}"));
    Ok(Opened {
        engine: Box::new(Cantle(options.open(&settings.dir)?)),
        configuration,
        caveats: Vec::new(),
        version: format!("Cantle {}", super::locked_version("cantle")),
    })
}

impl Engine for Cantle {
    fn put(&self, key: &[u8], value: &[u8]) -> Result {
        Ok(self.0.put(key, value)?)
    }

    fn delete(&self, key: &[u8]) -> Result {
        Ok(self.0.delete(key)?)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.0.get_with(key, read)?.is_some())
    }

    fn get_many(&self, keys: &[Vec<u8>], read: &mut dyn FnMut(usize, &[u8])) -> Result {
        let mut failed = None;
        self.0.get_many_with(keys, |number, found| match found {
            Ok(value) => value.into_iter().for_each(|value| read(number, value)),
            Err(error) => failed = Some(error),
        });
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    fn scan(&self, from: &[u8], to: Option<&[u8]>, rows: u64, read: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        // As with the other stores, pairs are not copied.
        let mut cursor = match to {
            Some(to) => self.0.cursor(from..to),
            None => self.0.cursor(from..),
        };
        let mut there = cursor.seek_to_first()?;
        for left in (0..rows).rev() {
            let Some((key, value)) = cursor.key().zip(cursor.value()).filter(|_| there) else { break };
            read(key, value);
            // A seek alone reads no further pair.
            there = left > 0 && cursor.next()?;
        }
        Ok(())
    }

    fn sync(&self) -> Result {
        Ok(self.0.sync()?)
    }

    fn is_idle(&self) -> bool {
        let stats = self.0.stats();
        stats.maintenance_queued + stats.maintenance_running == 0
    }

    fn unmerged_bytes(&self) -> u64 {
        let growing = |layout: &LayoutStats| match layout {
            LayoutStats::Flsm(stats) => Some(stats.generation_bytes),
            LayoutStats::Forest(stats) => Some(stats.generation_bytes),
            _ => None,
        };
        let unmerged =
            |keyspace: &KeyspaceStats| Some(keyspace.log_bytes.saturating_sub(growing(&keyspace.of_layout)?));
        self.0.stats().keyspaces.iter().filter_map(unmerged).sum()
    }

    fn figures(&self) -> Figures {
        let stats = serde_json::to_value(self.0.stats()).unwrap_or_default();
        let mut figures = BTreeMap::new();
        flatten("", &stats, &mut figures);
        figures
    }

    fn close(self: Box<Self>) -> Result {
        Ok(self.0.close()?)
    }
}

/// Numbers by their path: `gets_served.resident`. The only keyspace of the lab is left out of the path.
fn flatten(path: &str, value: &serde_json::Value, into: &mut Figures) {
    let join = |name: &str| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
    match value {
        serde_json::Value::Number(number) => {
            into.insert(path.to_string(), number.as_f64().unwrap_or(0.0));
        }
        serde_json::Value::Object(members) => {
            members.iter().for_each(|(name, value)| flatten(&join(name), value, into));
        }
        serde_json::Value::Array(values) if path == "keyspaces" => {
            values.iter().for_each(|value| flatten("", value, into));
        }
        _ => {}
    }
}

//! The model: the contents that a store should have.

use super::order::{Order, OrderedKey};
use cantle::Keyspace;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

pub type Map = BTreeMap<OrderedKey, Rc<[u8]>>;
pub type Pair = (OrderedKey, Rc<[u8]>);

/// A keyspace of the model. Cheap to clone: maps are copied when they change.
#[derive(Clone)]
pub struct Space {
    pub order: Order,
    /// `None` for the default keyspace, which is used through the store's own operations.
    pub handle: Option<Keyspace>,
    pub map: Rc<Map>,
    pub metadata: Vec<u8>,
}

pub type State = BTreeMap<String, Space>;

impl Space {
    pub fn new(order: Order, handle: Option<Keyspace>) -> Self {
        Self { order, handle, map: Rc::default(), metadata: Vec::new() }
    }

    pub fn key(&self, bytes: &[u8]) -> OrderedKey {
        OrderedKey { order: self.order, bytes: bytes.into() }
    }

    pub fn get(&self, key: &[u8]) -> Option<Rc<[u8]>> {
        self.map.get(&self.key(key)).cloned()
    }

    /// Replaces an equal key, even if its bytes differ, by the new one.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        let key = self.key(key);
        let map = Rc::make_mut(&mut self.map);
        map.remove(&key);
        map.insert(key, value.into());
    }

    pub fn delete(&mut self, key: &[u8]) {
        let key = self.key(key);
        if self.map.contains_key(&key) {
            Rc::make_mut(&mut self.map).remove(&key);
        }
    }

    /// Puts the value, or deletes the key.
    pub fn set(&mut self, key: &[u8], value: Option<&[u8]>) {
        match value {
            Some(value) => self.put(key, value),
            None => self.delete(key),
        }
    }

    /// The first pair, or the last one.
    pub fn end(&self, is_back: bool) -> Option<Pair> {
        let pair = if is_back { self.map.last_key_value() } else { self.map.first_key_value() };
        pair.map(|(key, value)| (key.clone(), value.clone()))
    }

    pub fn delete_range(&mut self, bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) {
        for (key, _) in self.range(bounds) {
            Rc::make_mut(&mut self.map).remove(&key);
        }
    }

    /// True if no key can be within the bounds.
    pub fn is_empty_range(&self, (start, end): &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> bool {
        match (start.as_ref().map(|key| self.key(key)), end.as_ref().map(|key| self.key(key))) {
            (Bound::Included(a), Bound::Included(b)) => a > b,
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
        }
    }

    /// The pairs within the bounds.
    pub fn range(&self, bounds: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Vec<Pair> {
        if self.is_empty_range(bounds) {
            return Vec::new();
        }
        let start = bounds.0.as_ref().map(|key| self.key(key));
        let end = bounds.1.as_ref().map(|key| self.key(key));
        self.map.range((start, end)).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    pub fn prefix(&self, prefix: &[u8]) -> Vec<Pair> {
        let starts = |(key, _): &(&OrderedKey, &Rc<[u8]>)| key.bytes.starts_with(prefix);
        self.map.iter().filter(starts).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> u64 {
        self.map.iter().map(|(key, value)| (key.bytes.len() + value.len()) as u64).sum()
    }
}

/// True if two states have identical contents, byte for byte.
pub fn same(a: &State, b: &State) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|((a_name, a), (b_name, b))| {
            a_name == b_name
                && a.metadata == b.metadata
                && a.map.len() == b.map.len()
                && a.map.iter().zip(b.map.iter()).all(|((ak, av), (bk, bv))| ak.bytes == bk.bytes && av == bv)
        })
}

/// The differences between two states, as text.
pub fn differences(found: &State, expected: &State) -> Vec<String> {
    let names = |state: &State| state.keys().cloned().collect::<Vec<_>>();
    if names(found) != names(expected) {
        return vec![format!("keyspaces {:?}, not {:?}", names(found), names(expected))];
    }
    let mut all = Vec::new();
    for ((name, found), expected) in found.iter().zip(expected.values()) {
        for (key, value) in found.map.iter() {
            match expected.map.get(key) {
                None => all.push(format!("{name}: {} should not be there", show(&key.bytes))),
                Some(other) if other != value => {
                    all.push(format!(
                        "{name}: {} has {}, not {}",
                        show(&key.bytes),
                        show(value),
                        show(other)
                    ));
                }
                _ => {}
            }
        }
        let missing = expected.map.keys().filter(|key| !found.map.contains_key(key));
        all.extend(missing.map(|key| format!("{name}: {} is missing", show(&key.bytes))));
        if found.metadata != expected.metadata {
            all.push(format!("{name}: other metadata"));
        }
    }
    all
}

/// The differences between a state and the one of these that is most similar, as text.
pub fn nearest<'a>(found: &State, expected: impl Iterator<Item = &'a State>) -> String {
    const SHOWN: usize = 8;
    let all = expected.map(|state| differences(found, state)).enumerate();
    let Some((index, least)) = all.min_by_key(|(_, differences)| differences.len()) else {
        return "there is nothing to compare with".into();
    };
    let shown = least.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("; ");
    match least.len() {
        0 => format!("as state {index}, but for the spelling of a key"),
        many => format!("{many} differences from state {index}: {shown}"),
    }
}

/// Bytes in readable form, shortened.
pub fn show(bytes: &[u8]) -> String {
    format!("{} ({} bytes)", bytes[..bytes.len().min(24)].escape_ascii(), bytes.len())
}

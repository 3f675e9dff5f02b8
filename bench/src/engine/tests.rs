//! Compares every compiled adapter with a map.

use super::*;
use cantle_workloads::generator::Random;

fn settings(dir: &std::path::Path, durability: Durability) -> Settings {
    Settings { dir: dir.join("store"), budget_bytes: 32 << 20, durability, background_threads: 1 }
}

fn compiled() -> Vec<Spec> {
    let all = adapters().into_iter().filter(|adapter| adapter.open.is_some());
    all.map(|adapter| Spec::plain(adapter.name)).collect()
}

/// All pairs from `from` up to `to`, at most `rows`.
fn scan(engine: &dyn Engine, from: &[u8], to: Option<&[u8]>, rows: u64) -> Vec<Pair> {
    let mut found = Vec::new();
    engine.scan(from, to, rows, &mut |key, value| found.push((key.to_vec(), value.to_vec()))).unwrap();
    // LevelDB's adapter syncs by writing this.
    found.retain(|(key, _)| !key.starts_with(b"\0"));
    found
}

fn compare(engine: &dyn Engine, model: &BTreeMap<Vec<u8>, Vec<u8>>, name: &str) {
    let pairs = |from: &[u8], to: Option<&[u8]>, rows: usize| -> Vec<Pair> {
        let range =
            model.range(from.to_vec()..).take_while(|(key, _)| to.is_none_or(|to| key.as_slice() < to));
        range.take(rows).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    assert_eq!(scan(engine, b"k", None, u64::MAX), pairs(b"k", None, usize::MAX), "{name}");
    assert_eq!(scan(engine, b"k3", None, 7), pairs(b"k3", None, 7), "{name}");
    assert_eq!(scan(engine, b"k2", Some(b"k41"), u64::MAX), pairs(b"k2", Some(b"k41"), usize::MAX), "{name}");
    for number in 0..100u32 {
        let key = format!("k{number}").into_bytes();
        let mut found = None;
        let is_there = engine.get(&key, &mut |value| found = Some(value.to_vec())).unwrap();
        assert_eq!((is_there, found.as_ref()), (model.contains_key(&key), model.get(&key)), "{name}");
    }
}

#[test]
fn adapters_do_what_a_map_does_and_keep_it() {
    for spec in compiled() {
        let dir = tempfile::tempdir().unwrap();
        let name = spec.to_string();
        for durability in [Durability::Process, Durability::Sync] {
            let settings = settings(dir.path(), durability);
            // Debian's library may not be installed.
            let opened = match open(&spec, &settings) {
                Err(why) if why.0.contains("could be loaded") => continue,
                opened => opened.unwrap(),
            };
            assert!(!opened.version.contains("unknown") && !opened.configuration.is_empty(), "{name}");
            let mut random = Random::new(5);
            let mut model = BTreeMap::new();
            let loaded: Vec<Pair> =
                (0..50).map(|number| (format!("k{number}").into_bytes(), b"loaded".to_vec())).collect();
            opened.engine.put_all(&loaded).unwrap();
            model.extend(loaded);
            for _ in 0..200 {
                let key = format!("k{}", random.below(100)).into_bytes();
                if random.below(4) == 0 {
                    opened.engine.delete(&key).unwrap();
                    model.remove(&key);
                } else {
                    let value = random.bits().to_le_bytes().to_vec();
                    opened.engine.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
            compare(opened.engine.as_ref(), &model, &name);
            opened.engine.sync().unwrap();
            opened.engine.close().unwrap();
            if !spec.is_volatile() {
                let reopened = open(&spec, &settings).unwrap().engine;
                compare(reopened.as_ref(), &model, &name);
                // The next round must not depend on the data of this one.
                model.keys().for_each(|key| reopened.delete(key).unwrap());
                reopened.close().unwrap();
            }
        }
    }
}

#[test]
fn every_variant_that_a_suite_asks_for_can_be_opened() {
    let suite = crate::suite::build("evendb", &crate::suite::Parameters::default(), &[]).unwrap();
    let asked: std::collections::BTreeSet<Spec> =
        suite.cells.into_iter().filter_map(|cell| cell.engines).flatten().collect();
    assert!(asked.len() > 20, "{}", asked.len());
    for spec in asked.iter().filter(|spec| check(spec).is_ok()) {
        let dir = tempfile::tempdir().unwrap();
        let opened = open(spec, &settings(dir.path(), Durability::Process)).unwrap();
        opened.engine.close().unwrap();
    }
    for spec in Spec::parse("rocksdb-grid").unwrap().iter().filter(|spec| check(spec).is_ok()) {
        let dir = tempfile::tempdir().unwrap();
        let opened = open(spec, &settings(dir.path(), Durability::Process)).unwrap();
        assert!(opened.configuration.contains("level0_trigger"), "{}", opened.configuration);
        opened.engine.close().unwrap();
    }
    for wrong in ["cantle:munks=maybe", "cantle:nothing=1", "cantle:log_bytes=much"] {
        let spec = Spec::parse(wrong).unwrap().remove(0);
        let dir = tempfile::tempdir().unwrap();
        assert!(open(&spec, &settings(dir.path(), Durability::Process)).is_err(), "{wrong}");
    }
}

#[test]
fn specs_are_read_as_they_are_written() {
    for text in ["cantle", "cantle:munks=off:row_cache=off", "leveldb=/opt/x.so", "rocksdb-tuned"] {
        let specs = Spec::parse(text).unwrap();
        assert_eq!((specs.len(), specs[0].to_string().as_str()), (1, text));
        let json = serde_json::to_string(&specs[0]).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), specs[0]);
    }
    assert_eq!(Spec::parse("rocksdb").unwrap().len(), 2);
    assert!(Spec::parse("cantle:munks").is_err());
    let file = Spec::parse("leveldb=/opt/x.so").unwrap()[0].file_name();
    assert!(!file.contains('/'), "{file}");
}

#[test]
fn what_is_not_compiled_says_how_to_get_it() {
    for adapter in adapters().iter().filter(|adapter| adapter.open.is_none()) {
        let why = check(&Spec::plain(adapter.name)).unwrap_err().0;
        assert!(why.contains("--features") && !adapter.about.is_empty(), "{why}");
    }
    assert!(check(&Spec::plain("nothing")).unwrap_err().0.contains("cantle-published"));
}

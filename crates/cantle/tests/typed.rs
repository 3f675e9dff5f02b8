//! Keyspaces of typed keys and values, through the public interface.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::key::{self, Part, Time};
use cantle::typed::{CodecError, ValueCodec};
use cantle::{Db, Error, KeyspaceOptions, Options, TypedKeyspace, WriteBatch};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

type Key = (String, i64, Option<bool>);

fn store() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store")).unwrap();
    (dir, db)
}

fn raw(db: &Db, name: &str) -> cantle::Keyspace {
    db.keyspace(name).unwrap()
}

fn pairs<V: ValueCodec>(range: cantle::typed::TypedRange<Key, V>) -> Vec<(Key, V::Output)> {
    range.collect::<cantle::Result<_>>().unwrap()
}

fn keys() -> impl Strategy<Value = Key> {
    ("[ab\0]{0,2}", prop_oneof![-2i64..3, any::<i64>()], any::<Option<bool>>())
}

fn bound(of: Key, kind: u8) -> Bound<Key> {
    match kind {
        0 => Bound::Included(of),
        1 => Bound::Excluded(of),
        _ => Bound::Unbounded,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever bounds a range, and from whichever end it is read, it has the pairs that a map of
    /// the same types has.
    #[test]
    fn a_typed_keyspace_is_a_map_of_its_types(
        puts in prop::collection::vec((keys(), any::<u32>()), 0..24),
        deletes in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        (low, low_kind) in (keys(), 0u8..3),
        (high, high_kind) in (keys(), 0u8..3),
    ) {
        let disk = Arc::new(cantle::vfs::MemVfs::new());
        let db = Options::new().vfs(disk).open("store").unwrap();
        let typed: TypedKeyspace<Key, u32> = db.typed("typed").unwrap();
        let mut model = BTreeMap::new();
        for (key, value) in &puts {
            typed.put(key, value).unwrap();
            model.insert(key.clone(), *value);
        }
        for index in deletes {
            if let Some((key, _)) = puts.get(index.index(puts.len().max(1))) {
                typed.delete(key).unwrap();
                model.remove(key);
            }
        }
        for (key, _) in &puts {
            prop_assert_eq!(typed.get(key).unwrap(), model.get(key).copied());
            prop_assert_eq!(typed.contains_key(key).unwrap(), model.contains_key(key));
        }
        let all: Vec<_> = model.clone().into_iter().collect();
        prop_assert_eq!(pairs(typed.iter()), all.clone());
        prop_assert_eq!(pairs(typed.range(..).unwrap()), all.clone());
        prop_assert_eq!(typed.first().unwrap(), all.first().cloned());
        prop_assert_eq!(typed.last().unwrap(), all.last().cloned());

        let among = |range: (Bound<Key>, Bound<Key>)| {
            let within = |pair: &&(Key, u32)| std::ops::RangeBounds::contains(&range, &pair.0);
            all.iter().filter(within).cloned().collect::<Vec<_>>()
        };
        let range = (bound(low.clone(), low_kind), bound(high.clone(), high_kind));
        prop_assert_eq!(pairs(typed.range(range.clone()).unwrap()), among(range.clone()));
        let mut reversed: Vec<_> = typed.range(range.clone()).unwrap().rev().map(Result::unwrap).collect();
        reversed.reverse();
        prop_assert_eq!(&reversed, &among(range.clone()));

        // Leading parts, as &str: they stand for all keys that begin with them.
        let (from, to) = (low.0.as_str(), high.0.as_str());
        let by_text = |holds: &dyn Fn(&str) -> bool| {
            all.iter().filter(|pair| holds(&pair.0.0)).cloned().collect::<Vec<_>>()
        };
        prop_assert_eq!(pairs(typed.prefix(&(from,)).unwrap()), by_text(&|text| text == from));
        prop_assert_eq!(pairs(typed.range((from,)..(to,)).unwrap()), by_text(&|text| (from..to).contains(&text)));
        prop_assert_eq!(pairs(typed.range((from,)..=(to,)).unwrap()), by_text(&|text| (from..=to).contains(&text)));
        prop_assert_eq!(pairs(typed.range(..=(to,)).unwrap()), by_text(&|text| text <= to));
        prop_assert_eq!(pairs(typed.range(..(to,)).unwrap()), by_text(&|text| text < to));
        prop_assert_eq!(pairs(typed.range((from,)..).unwrap()), by_text(&|text| text >= from));
        let beyond = (Bound::Excluded((from,)), Bound::Unbounded);
        prop_assert_eq!(pairs(typed.range(beyond).unwrap()), by_text(&|text| text > from));
        let two = pairs(typed.prefix(&(from, low.1)).unwrap());
        prop_assert!(two.iter().all(|pair| pair.0.0 == from && pair.0.1 == low.1));
        prop_assert_eq!(two.len(), all.iter().filter(|pair| pair.0.0 == from && pair.0.1 == low.1).count());

        typed.delete_range(range.clone()).unwrap();
        let gone = among(range);
        prop_assert_eq!(pairs(typed.iter()), all.iter().filter(|pair| !gone.contains(pair)).cloned().collect::<Vec<_>>());
    }
}

#[test]
fn a_key_is_found_by_other_types_of_the_same_kind() {
    let (_dir, db) = store();
    let typed = db.typed::<(String, u64), String>("typed").unwrap();
    typed.put(&("a", 1), "x").unwrap();
    typed.put(&(String::from("a"), 2u64), &String::from("y")).unwrap();
    assert_eq!(typed.get(&(String::from("a"), 1u8 as i128)).unwrap().as_deref(), Some("x"));
    assert_eq!(typed.get(&('a', 2i16)).unwrap().as_deref(), Some("y"));
    let one = db.typed::<char, ()>("one").unwrap();
    one.put("é", &()).unwrap();
    assert!(one.contains_key(&'é').unwrap());
}

#[test]
fn values_of_each_type_come_back() {
    let (_dir, db) = store();
    macro_rules! comes_back {
        ($($type:ty: $values:expr),+ $(,)?) => {$(
            let name = std::any::type_name::<$type>();
            let typed = db.typed::<u32, $type>(name).unwrap();
            for (index, value) in $values.into_iter().enumerate() {
                typed.put(&(index as u32), &value).unwrap();
                assert!(typed.get(&(index as u32)).unwrap().is_some_and(|back| back == value), "{name}");
            }
        )+};
    }
    comes_back! {
        u8: [0, u8::MAX],
        i64: [i64::MIN, 0],
        u128: [0, u128::MAX],
        f64: [0.5, f64::INFINITY],
        bool: [false, true],
        char: ['\0', 'é'],
        Time: [Time::MIN, Time::MAX],
        Option<i32>: [None, Some(-1)],
        (String, Vec<u8>, (bool, f32)): [("a\0".to_owned(), vec![0, 255], (true, -0.5))],
        Vec<Part>: [vec![], vec![Part::Null, Part::Uuid([1; 16])]],
        String: [String::new(), "é\0".into()],
        Vec<u8>: [vec![], vec![0, 255]],
    }
    // Without a value of their own they are a set.
    let set = db.typed::<String, ()>("set").unwrap();
    set.put("a", &()).unwrap();
    assert_eq!(set.first().unwrap(), Some(("a".into(), ())));
}

#[test]
fn other_types_are_an_error_that_names_both() {
    let (_dir, db) = store();
    db.typed::<(String, Time), u32>("t").unwrap();
    // The same kinds are the same types.
    db.typed::<(String, Time), i128>("t").unwrap();
    for (error, option, stored, given) in [
        (db.typed::<(String, i64), u32>("t").unwrap_err(), "key types", "text, time", "text, int"),
        (db.typed::<String, u32>("t").unwrap_err(), "key types", "text, time", "text"),
        (db.typed::<(Option<String>, Time), u32>("t").unwrap_err(), "key types", "text, time", "text?, time"),
        (db.typed::<(String, Time), String>("t").unwrap_err(), "value encoding", "key", "utf-8"),
        (db.typed::<(String, Time), (bool, f64)>("t").unwrap_err(), "value type", "int", "(bool, float)"),
    ] {
        let Error::OptionMismatch { keyspace, option: found, stored: was, given: is, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!((keyspace.as_str(), *found, was.as_str(), is.as_str()), ("t", option, stored, given));
    }
}

#[test]
fn the_types_stay_over_a_reopening_and_for_readers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path).unwrap();
    db.typed::<Time, String>("t").unwrap().put(&Time::MIN, "x").unwrap();
    db.close().unwrap();
    drop(db);
    let db = Options::new().read_only(true).open(&path).unwrap();
    assert_eq!(db.typed::<Time, String>("t").unwrap().first().unwrap(), Some((Time::MIN, "x".into())));
    assert!(matches!(db.typed::<i64, String>("t"), Err(Error::OptionMismatch { .. })));
}

#[test]
fn a_pair_of_other_types_is_an_error_that_names_its_key() {
    let (_dir, db) = store();
    let typed = db.typed::<(String, u8), (u8, bool)>("t").unwrap();
    typed.put(&("a", 1), &(1, true)).unwrap();
    typed.put(&("c", 3), &(3, true)).unwrap();
    let keyspace = typed.keyspace();
    keyspace.put(key::encode(&("b", 2)), b"nonsense").unwrap();
    keyspace.put(key::encode(&("b", 300)), key::encode(&(1, true))).unwrap();
    keyspace.put(b"\xfe", b"").unwrap();

    let Error::WrongType { keyspace, key, what, .. } = typed.get(&("b", 2)).unwrap_err() else { panic!() };
    assert_eq!((keyspace.as_str(), key), ("t", key::encode(&("b", 2))));
    assert!(what.contains("the value of the key (\"b\", 2) is not of the type (int, bool)"), "{what}");

    // The pairs beyond are read all the same.
    let found: Vec<_> = typed.iter().map(|pair| pair.map_err(|error| error.to_string())).collect();
    assert_eq!(found.len(), 5);
    assert!(found[0].is_ok() && found[3] == Ok((("c".into(), 3), (3, true))), "{found:?}");
    let message = found[2].as_ref().unwrap_err();
    assert!(
        message.contains("\"t\"") && message.contains("(\"b\", 300)") && message.contains("part 2"),
        "{message}"
    );
    let message = found[4].as_ref().unwrap_err();
    assert!(message.contains("b\"\\xfe\"") && message.contains("not a composite key"), "{message}");
    let error = typed.update(&("b", 2), |_| Some((1, true))).unwrap_err();
    assert!(matches!(error, Error::WrongType { .. }));
    assert_eq!(typed.keyspace().get(key::encode(&("b", 2))).unwrap().unwrap(), b"nonsense");
}

#[test]
fn an_update_reads_and_writes_the_type() {
    let (_dir, db) = store();
    let counts = db.typed::<String, u64>("counts").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    counts.update("a", |old| Some(old.unwrap_or(0) + 1)).unwrap();
                }
            });
        }
    });
    assert_eq!(counts.get("a").unwrap(), Some(400));
    assert_eq!(counts.update("a", |_| None::<u64>).unwrap(), None);
    assert!(!counts.contains_key("a").unwrap());
}

#[test]
fn a_time_finer_than_a_microsecond_is_refused_wherever_a_key_is_given() {
    let (_dir, db) = store();
    let typed = db.typed::<(String, Time), u8>("t").unwrap();
    let fine = ("x", UNIX_EPOCH + Duration::from_nanos(1));
    let results = [
        typed.put(&fine, &1),
        typed.get(&fine).map(|_| ()),
        typed.contains_key(&fine).map(|_| ()),
        typed.delete(&fine),
        typed.delete_range(..fine),
        typed.update(&fine, |old| old).map(|_| ()),
        typed.range(fine..).map(|_| ()),
        typed.prefix(&fine).map(|_| ()),
    ];
    for result in results {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, Error::InvalidArgument(what) if what.contains("part 2") && what.contains("Time::floor")),
            "{error}"
        );
    }
    typed.put(&("x", Time::ceil(fine.1).unwrap()), &1).unwrap();
    assert_eq!(typed.get(&("x", UNIX_EPOCH + Duration::from_micros(1))).unwrap(), Some(1));
}

#[test]
fn pairs_without_types_are_not_taken_for_typed_ones() {
    let (_dir, db) = store();
    let keyspace = raw(&db, "raw");
    keyspace.put("a", "b").unwrap();
    let error = db.typed::<String, String>("raw").unwrap_err().to_string();
    assert!(error.contains("\"raw\"") && error.contains("pairs without types"), "{error}");
    keyspace.delete("a").unwrap();
    db.typed::<String, String>("raw").unwrap();

    for metadata in
        ["{}", "x", "[1]", "{\"cantle\":\"1\"}", "{\"cantle\":1}", "{\"cantle\":1,\"types\":{\"key\":[1]}}"]
    {
        let keyspace = raw(&db, "other");
        keyspace.set_metadata(metadata.as_bytes()).unwrap();
        let error = db.typed::<String, String>("other").unwrap_err().to_string();
        assert!(error.contains("another program"), "{error}");
        assert_eq!(keyspace.metadata(), metadata.as_bytes());
    }
    raw(&db, "newer").set_metadata(b"{\"cantle\":2}").unwrap();
    assert!(db.typed::<String, String>("newer").unwrap_err().to_string().contains("use a newer one"));
}

struct Backwards;
impl cantle::Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

#[test]
fn another_order_than_that_of_bytes_is_refused() {
    let (_dir, db) = store();
    let options = KeyspaceOptions::new().comparator(Arc::new(Backwards));
    assert!(matches!(
        db.typed_with::<u8, u8>("t", options),
        Err(Error::OptionMismatch { option: "comparator", .. })
    ));
}

/// The metadata in the words of docs/choosing-keys.md, and of the command.
#[test]
fn the_metadata_are_as_documented() {
    let (_dir, db) = store();
    let metadata = |name: &str| String::from_utf8(raw(&db, name).metadata()).unwrap();
    db.typed::<(String, Time, Option<i32>, f64), u32>("columns").unwrap();
    assert_eq!(
        metadata("columns"),
        concat!(
            r#"{"cantle":1,"key":[["key1","text"],["key2","time"],["key3","int"],["key4","float"]],"value":"raw","#,
            r#""types":{"key":["text","time","int?","float"],"value":"int","codec":"key"}}"#
        )
    );
    // Types that the command has no name for: to it, keys are bytes.
    db.typed::<((String, bool), Vec<u8>, [i8; 2]), Vec<u8>>("others").unwrap();
    assert_eq!(
        metadata("others"),
        concat!(
            r#"{"cantle":1,"key":[],"value":"raw","#,
            r#""types":{"key":["(text, bool)","bytes","[int]"],"value":"bytes","codec":"raw"}}"#
        )
    );
}

#[test]
fn threads_that_open_with_different_types_agree_on_one() {
    for round in 0..20 {
        let disk = Arc::new(cantle::vfs::MemVfs::new());
        let db = Options::new().vfs(disk).open(format!("store{round}")).unwrap();
        let keyspace = raw(&db, "t");
        let (text, int) = std::thread::scope(|scope| {
            let text = scope.spawn(|| TypedKeyspace::<String, u8>::new(keyspace.clone()).is_ok());
            let int = scope.spawn(|| TypedKeyspace::<i64, u8>::new(keyspace.clone()).is_ok());
            (text.join().unwrap(), int.join().unwrap())
        });
        assert!(text != int);
        assert_eq!(db.typed::<String, u8>("t").is_ok(), text);
    }
}

#[test]
fn snapshots_batches_and_transactions_have_typed_views() {
    let (_dir, db) = store();
    let typed = db.typed::<(String, u8), String>("t").unwrap();
    let mut batch = WriteBatch::new();
    let mut view = batch.typed(&typed);
    view.put(&("a", 1), "x").unwrap().put(&("b", 2), "y").unwrap().put(&("c", 3), "z").unwrap();
    view.delete(&("b", 2)).unwrap().delete_range(("c",)..).unwrap();
    db.write(batch).unwrap();
    let snapshot = db.snapshot();
    typed.delete(&("a", 1)).unwrap();
    let view = snapshot.typed(&typed);
    let pair = (("a".to_owned(), 1), "x".to_owned());
    assert_eq!(view.get(&("a", 1)).unwrap().as_deref(), Some("x"));
    assert!(view.contains_key(&("a", 1)).unwrap() && !view.contains_key(&("b", 2)).unwrap());
    for mut range in [view.range(("a",)..=("b",)).unwrap(), view.prefix(&("a",)).unwrap(), view.iter()] {
        assert_eq!(range.next().unwrap().unwrap(), pair);
        assert!(range.next().is_none());
    }
    assert_eq!((view.first().unwrap(), view.last().unwrap()), (Some(pair.clone()), Some(pair)));
    assert!(typed.first().unwrap().is_none());

    let moved = db.transact(|tx| {
        let view = tx.typed(&typed);
        view.put(&("q", 1), "first")?;
        view.put(&("q", 2), "second")?;
        assert!(!view.insert_if_absent(&("q", 1), "other")?);
        assert!(view.compare_and_swap(&("q", 2), Some("second"), Some("2nd"))?);
        assert_eq!(view.last()?.map(|pair| pair.1).as_deref(), Some("2nd"));
        view.pop_first()
    });
    assert_eq!(moved.unwrap(), Some((("q".into(), 1), "first".into())));
    assert_eq!(typed.iter().count(), 1);
}

#[test]
fn a_typed_queue_gives_each_pair_once_and_keeps_what_it_cannot_read() {
    let (_dir, db) = store();
    let queue = db.typed::<u64, String>("queue").unwrap();
    for number in 0..200u64 {
        assert!(queue.insert_if_absent(&number, &number.to_string()).unwrap());
    }
    assert!(!queue.insert_if_absent(&5, "other").unwrap());
    let popped: Vec<u64> = std::thread::scope(|scope| {
        let pop =
            || std::iter::from_fn(|| queue.pop_first().unwrap().map(|(key, _)| key)).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(pop)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(popped.len(), 200);
    assert_eq!(popped.into_iter().collect::<std::collections::BTreeSet<_>>().len(), 200);

    queue.put(&1, "a").unwrap();
    assert!(!queue.compare_and_swap(&1, Some("b"), None).unwrap());
    assert!(queue.compare_and_swap(&1, Some("a"), Some("b")).unwrap());
    assert_eq!(queue.pop_last().unwrap(), Some((1, "b".into())));
    assert_eq!(queue.pop_last().unwrap(), None);
    queue.keyspace().put(key::encode(&7), b"\xff").unwrap();
    assert!(matches!(queue.pop_first(), Err(Error::WrongType { .. })));
    assert_eq!(queue.keyspace().get(key::encode(&7)).unwrap().unwrap(), b"\xff");
}

/// A value that has no encoding, and a codec of the caller's own.
struct Even;
impl ValueCodec for Even {
    type Input = u8;
    type Output = u8;
    const CODEC: &'static str = "one even byte";
    fn type_name() -> String {
        "Even".into()
    }
    fn encode(value: &u8) -> Result<Vec<u8>, CodecError> {
        if value.is_multiple_of(2) { Ok(vec![*value]) } else { Err("it is odd".into()) }
    }
    fn decode(bytes: &[u8]) -> Result<u8, CodecError> {
        match bytes {
            [even] if even.is_multiple_of(2) => Ok(*even),
            _ => Err("it is not one even byte".into()),
        }
    }
}

#[test]
fn a_codec_of_the_callers_own_is_taken_and_its_errors_are_told() {
    let (_dir, db) = store();
    let typed = db.typed::<u8, Even>("t").unwrap();
    typed.put(&1, &2).unwrap();
    let error = typed.put(&5, &3).unwrap_err().to_string();
    assert!(error.contains("\"t\": the value for the key (5) has no encoding: it is odd"), "{error}");
    assert!(typed.update(&1, |_| Some(3u8)).unwrap_err().to_string().contains("it is odd"));
    assert_eq!(typed.get(&1).unwrap(), Some(2));
    typed.keyspace().put(key::encode(&7), "??").unwrap();
    let error = typed.get(&7).unwrap_err().to_string();
    assert!(
        error.contains("the value of the key (7) is not of the type Even: it is not one even byte"),
        "{error}"
    );
}

#[cfg(feature = "serde")]
mod of_serde {
    use super::*;
    use cantle::typed::Json;

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    struct Flight {
        dest: String,
        #[serde(default)]
        delay: Option<i32>,
    }

    #[test]
    fn values_are_json_of_any_type_that_serde_knows() {
        let (_dir, db) = store();
        let flights = db.typed::<(String, Time), Json<Flight>>("flights").unwrap();
        let flight = Flight { dest: "IAH".into(), delay: Some(11) };
        flights.put(&("UA", Time::MIN), &flight).unwrap();
        assert_eq!(flights.first().unwrap(), Some((("UA".into(), Time::MIN), flight)));
        let bytes = flights.keyspace().get(key::encode(&("UA", Time::MIN))).unwrap().unwrap();
        assert_eq!(bytes, br#"{"dest":"IAH","delay":11}"#);
        let metadata = String::from_utf8(flights.keyspace().metadata()).unwrap();
        assert!(
            metadata.contains(
                r#""value":"json","types":{"key":["text","time"],"value":"Flight","codec":"json"}"#
            )
        );
        let Err(Error::OptionMismatch { stored, given, .. }) =
            db.typed::<(String, Time), Json<u32>>("flights")
        else {
            panic!()
        };
        assert_eq!((stored.as_str(), given.as_str()), ("Flight", "u32"));
        // A field that was added later has its default.
        flights.keyspace().put(key::encode(&("UA", Time::MAX)), r#"{"dest":"EWR"}"#).unwrap();
        assert_eq!(flights.last().unwrap().unwrap().1, Flight { dest: "EWR".into(), delay: None });
        flights.keyspace().put(key::encode(&("UA", Time::MAX)), "{").unwrap();
        let error = flights.last().unwrap_err().to_string();
        assert!(error.contains("(\"UA\", 9223372036854775807) is not of the type Flight: EOF"), "{error}");
    }

    #[test]
    fn a_keyspace_that_the_command_loaded_opens_with_the_types_of_its_columns() {
        let (_dir, db) = store();
        let columns = r#""key":[["carrier","text"],["at","time"],["n","int"]]"#;
        let loaded = format!(r#"{{"cantle":1,{columns},"value":"json"}}"#);
        let keyspace = raw(&db, "flights");
        keyspace.put(key::encode(&("UA", 5, None::<i64>)), r#"{"dest":"IAH"}"#).unwrap();
        keyspace.set_metadata(loaded.as_bytes()).unwrap();

        type Loaded = (String, Time, Option<u32>);
        for error in [
            db.typed::<(String, i64, u32), Json<Flight>>("flights").unwrap_err(),
            db.typed::<(String, Time), Json<Flight>>("flights").unwrap_err(),
            db.typed::<Loaded, String>("flights").unwrap_err(),
        ] {
            assert!(matches!(&error, Error::OptionMismatch { .. }), "{error}");
        }
        assert_eq!(keyspace.metadata(), loaded.as_bytes());
        let flights = db.typed::<Loaded, Json<Flight>>("flights").unwrap();
        assert_eq!(flights.first().unwrap().unwrap().0, ("UA".into(), Time::from_micros(5), None));
        // The columns keep their names, and the types are recorded beside them.
        let types = r#""types":{"key":["text","time","int?"],"value":"Flight","codec":"json"}"#;
        assert_eq!(
            keyspace.metadata(),
            format!(r#"{{"cantle":1,{columns},"value":"json",{types}}}"#).as_bytes()
        );
        assert!(db.typed::<(String, Time, u32), Json<Flight>>("flights").is_err());

        // As Python records JSON of any type.
        let any = format!(r#"{{"cantle":1,{columns},"value":"json",{}}}"#, types.replace("Flight", "any"));
        raw(&db, "any").set_metadata(any.as_bytes()).unwrap();
        db.typed::<Loaded, Json<Flight>>("any").unwrap();

        let csv = format!(r#"{{"cantle":1,{columns},"value":{{"csv":["dest"]}}}}"#);
        raw(&db, "csv").set_metadata(csv.as_bytes()).unwrap();
        let Err(Error::OptionMismatch { stored, given, .. }) = db.typed::<Loaded, Json<Flight>>("csv") else {
            panic!()
        };
        assert_eq!((stored.as_str(), given.as_str()), ("csv", "json"));
        raw(&db, "raw keys").set_metadata(br#"{"cantle":1,"key":[],"value":"json"}"#).unwrap();
        let Err(Error::OptionMismatch { stored, .. }) = db.typed::<u8, Json<Flight>>("raw keys") else {
            panic!()
        };
        assert_eq!(stored, "bytes");
    }
}

use super::*;
use crate::schema::KeyColumns;
use proptest::prelude::*;

fn codec(columns: &str) -> KeyCodec {
    KeyCodec::Columns(columns.parse::<KeyColumns>().unwrap().0, Round::Exact)
}

fn print_parsed(columns: &str, text: &str) -> String {
    let codec = codec(columns);
    codec.print(&codec.parse(text.as_bytes()).unwrap()).unwrap()
}

#[test]
fn a_key_of_columns_prints_as_it_was_written() {
    let columns = "carrier,origin,at:time,flight:int,x:float";
    for text in [
        "UA,EWR,2013-07-04T09:00:00Z,1545,0.5",
        "\"a,b\",\"say \"\"hi\"\"\",1969-12-31T23:59:59.999999Z,-9223372036854775808,-0.0",
        "\"two\nlines\",ä,0001-01-01T00:00:00Z,0,inf",
        ",,,,",
        "UA,,2013-07-04T09:00:00.5Z,-1,1e300",
    ] {
        assert_eq!(print_parsed(columns, text), text);
    }
    assert_eq!(print_parsed("only", "\"\""), "\"\"");
    assert_eq!(print_parsed("only", ""), "");
}

#[test]
fn a_null_is_not_the_empty_text_unless_the_column_has_none() {
    assert_eq!(codec("a,b").parse(b",\"\"").unwrap(), key::encode(&(None::<&str>, "")));
    assert_eq!(print_parsed("a,b", "\"\","), "\"\",");
    assert_eq!(print_parsed("n:int,t:time", "\"\",\"\""), ",");
    assert_eq!(codec("only").show(&[0]), "0x00", "a null alone is shown");
}

#[test]
fn numbers_that_no_float_holds_are_refused() {
    for text in ["1e309", "-1e309", "1_0"] {
        assert!(codec("x:float").parse(text.as_bytes()).is_err(), "{text}");
    }
    assert!(codec("x:float").parse(b"1e309").unwrap_err().contains("beyond the largest 64-bit number"));
    assert!(KeyCodec::Tuple.parse(b"[1e309]").unwrap_err().contains("beyond the largest"));
    assert_eq!(print_parsed("x:float", "-inf"), "-inf");
}

#[test]
fn times_are_kept_in_utc_whatever_their_offset() {
    assert_eq!(print_parsed("t:time", "2013-07-04T11:00:00.250+02:00"), "2013-07-04T09:00:00.25Z");
    assert_eq!(
        codec("t:time").parse(b"1970-01-01T00:00:00.000001Z").unwrap(),
        cantle::key::Builder::new().time_micros(1).finish()
    );
}

#[test]
fn what_does_not_fit_a_column_names_the_column() {
    for (columns, text, says) in [
        ("n:int", "x", "\"n\" is not an integer"),
        ("n:int", "-", "\"n\" is not an integer"),
        (
            "n:int",
            "340282366920938463463374607431768211456",
            "beyond the largest integer, which has 128 bits",
        ),
        ("n:int", " 5", "not an integer"),
        ("n:float", "1,5", "has 2"),
        ("n:float", "one", "\"n\" is not a number"),
        ("t:time", "2013-07", "RFC 3339"),
        ("t:time", "2013-07-04T09:00:60Z", "leap second"),
        ("t:time", "12013-07-04", "out of range"),
        ("t:time", "2013-07-04T09:00:00", "RFC 3339"),
        ("t:time", "2013-07-04T09:00:00.0000001Z", "finer than a microsecond"),
        ("a,b", "x", "has 1"),
        ("a", "\"x", "closing quote"),
    ] {
        let error = codec(columns).parse(text.as_bytes()).unwrap_err();
        assert!(error.contains(says), "{text}: {error}");
    }
    assert!(codec("a").parse(b"\xff").unwrap_err().contains("UTF-8"));
}

#[test]
fn numbers_and_times_sort_by_value() {
    let ascending = |columns: &str, texts: &[&str]| {
        let keys: Vec<_> = texts.iter().map(|text| codec(columns).parse(text.as_bytes()).unwrap()).collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{texts:?}");
    };
    ascending("n:int", &["", "-1000", "-2", "0", "9", "10", "65536"]);
    let huge = ["-18446744073709551616", "-9223372036854775809", "0", "9223372036854775808"];
    ascending("n:int", &huge);
    ascending("x:float", &["", "-inf", "-1.5", "0", "1e-9", "2", "10", "inf"]);
    ascending("t:time", &["1969-12-31T23:00:00Z", "1970-01-01T00:00:00.5Z", "2013-07-04T11:00:00+02:00"]);
}

#[test]
fn a_prefix_of_columns_takes_whole_columns() {
    let codec = codec("carrier,n:int");
    let (start, end) = codec.parse_prefix(b"UA").unwrap();
    let within = |text: &[u8]| {
        let key = codec.parse(text).unwrap();
        key >= start && end.as_ref().is_none_or(|end| key < *end)
    };
    assert!(within(b"UA,5") && within(b"UA,") && within(b"UA,-5"));
    assert!(!within(b"UAL,5") && !within(b"U,5") && !within(b"UA\0,5") && !within(b"UB,5"));
    assert_eq!(KeyCodec::Raw.parse_prefix(b"a\\xff").unwrap().1, Some(b"b".to_vec()));
    assert_eq!(KeyCodec::Raw.parse_prefix(b"").unwrap(), (vec![], None));
}

#[test]
fn keys_that_are_not_of_the_columns_do_not_print() {
    let codec = codec("a,n:int");
    for key in [
        b"raw".to_vec(),
        key::encode(&("a",)),
        key::encode(&("a", "b")),
        key::encode(&(1i64, "a")),
        key::encode(&("a", 1i64, 2i64)),
        vec![],
    ] {
        assert_eq!(codec.print(&key), None, "{key:?}");
        assert_eq!(codec.show(&key), format!("0x{}", escape::to_hex(&key)));
    }
}

#[test]
fn a_key_that_was_cut_off_shows_what_is_left() {
    let codec = codec("carrier,origin,at:time,n:int");
    let key = codec.parse(b"UA,EWR,2013-07-04T09:00:00Z,1545").unwrap();
    let shown: Vec<String> = (0..=key.len()).map(|end| codec.show_start(&key[..end])).collect();
    assert_eq!(shown[3], "UA");
    assert_eq!(shown[7], "UA,EW");
    assert_eq!(shown[9], "UA,EWR");
    assert!(shown[13].starts_with("UA,EWR,2013-07-0"), "{}", shown[13]);
    assert_eq!(shown[key.len()], "UA,EWR,2013-07-04T09:00:00Z,1545");
    assert_eq!(codec.show_start(b"\xff"), "0xff");
}

#[test]
fn a_json_array_names_any_composite_key() {
    let text = r#"["UA",5,5.0,-0.0,null,true,{"hex":"00ff"},[1,[null]],{"float":"fff8000000000001"}]"#;
    let key = KeyCodec::Tuple.parse(text.as_bytes()).unwrap();
    assert_eq!(KeyCodec::Tuple.print(&key).unwrap(), text);
    for wrong in
        ["", "5", "[", "[340282366920938463463374607431768211456]", "[{}]", "[{\"hex\":\"0\"}]", "[1]x"]
    {
        assert!(KeyCodec::Tuple.parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
    assert!(KeyCodec::Tuple.parse(&[b'['; 100_000]).is_err());
    let deep = [vec![b'['; 100], vec![b']'; 100]].concat();
    assert!(KeyCodec::Tuple.parse(&deep).unwrap_err().contains("32 levels"));
}

#[test]
fn integers_of_128_bits_print_as_they_were_written() {
    let columns = "n:int".parse::<KeyColumns>().unwrap().0;
    for int in [
        "9223372036854775808",
        "18446744073709551615",
        "-9223372036854775809",
        "-170141183460469231731687303715884105728",
        "340282366920938463463374607431768211455",
    ] {
        let key = codec("n:int").parse(int.as_bytes()).unwrap();
        assert_eq!(print_parsed("n:int", int), int);
        assert_eq!(key_json(&columns, &key).unwrap(), [int]);
        let json: Box<RawValue> = serde_json::from_str(int).unwrap();
        assert_eq!(key_of_json(&columns, |_| Some(&*json), Round::Exact).unwrap(), key);
        let tuple = format!("[{int}]");
        assert_eq!(KeyCodec::Tuple.parse(tuple.as_bytes()).unwrap(), key);
        assert_eq!(KeyCodec::Tuple.print(&key).unwrap(), tuple);
    }
    assert_eq!(codec("n:int").parse(b"18446744073709551615").unwrap(), key::encode(&(u64::MAX,)));
    let huge = key::BigInt::from_magnitude(false, &[1; 17]).unwrap();
    let key = key::encode(&[Part::from(huge)]);
    assert_eq!((codec("n:int").print(&key), KeyCodec::Tuple.print(&key)), (None, None));
}

#[test]
fn parts_that_json_lacks_are_objects() {
    let uuid = *b"\x55\x0e\x84\x00\xe2\x9b\x41\xd4\xa7\x16\x44\x66\x55\x44\x00\x00";
    let parts = [
        Part::Float32(0.1),
        Part::Float32(-0.0),
        Part::Float32(f32::NEG_INFINITY),
        Part::Uuid(uuid),
        Part::Versionstamp(*b"0123456789\0\x01"),
    ];
    let text = r#"[{"float32":0.1},{"float32":-0.0},{"float32":"ff800000"},{"uuid":"550e8400-e29b-41d4-a716-446655440000"},{"versionstamp":"303132333435363738390001"}]"#;
    let key = key::encode(&parts);
    assert_eq!(KeyCodec::Tuple.print(&key).unwrap(), text);
    assert_eq!(KeyCodec::Tuple.parse(text.as_bytes()).unwrap(), key);
    for wrong in [
        r#"{"float32":1e39}"#,
        r#"{"float32":null}"#,
        r#"{"uuid":"550e8400e29b41d4a716446655440000"}"#,
        r#"{"uuid":"550e8400-e29b-41d4-a716-4466554400"}"#,
        r#"{"versionstamp":"3031"}"#,
    ] {
        assert!(KeyCodec::Tuple.parse(format!("[{wrong}]").as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn json_values_fit_their_columns_or_are_refused() {
    let columns = "a,n:int,x:float,t:time".parse::<KeyColumns>().unwrap().0;
    let key_of = |json: &str| {
        let members: std::collections::HashMap<String, Box<RawValue>> = serde_json::from_str(json).unwrap();
        key_of_json(&columns, |name| members.get(name).map(|raw| &**raw), Round::Exact)
    };
    let key = key_of(r#"{"a":"é","n":-7,"x":2,"t":"2013-07-04T09:00:00Z"}"#).unwrap();
    assert_eq!(key, key::encode(&("é", -7i64, 2.0, 1_372_928_400_000_000i64)));
    assert_eq!(key_json(&columns, &key).unwrap(), ["\"é\"", "-7", "2.0", "\"2013-07-04T09:00:00Z\""]);
    let nulls = key_of(r#"{"n":null,"a":null,"x":"","t":null}"#).unwrap();
    assert_eq!(nulls, [0; 4]);
    assert!(key_of(r#"{"n":null,"a":""}"#).unwrap_err().contains("no member \"x\""));
    for (column, wrong) in [("a", "5"), ("n", "1.5"), ("n", "[]"), ("x", "true"), ("t", "5")] {
        let mut members = serde_json::json!({"a":null,"n":null,"x":null,"t":null});
        members[column] = serde_json::from_str(wrong).unwrap();
        let error = key_of(&members.to_string()).unwrap_err();
        assert!(error.contains(&format!("column {column:?}")), "{wrong}: {error}");
    }
}

proptest! {
    #[test]
    fn a_printed_key_parses_to_itself(text in ".{0,6}", n: i64, bits: u64, micros: i64, raw: Vec<u8>) {
        let key = key::encode(&(text.as_str(), n, f64::from_bits(bits), micros));
        for codec in [codec("a,n:int,x:float,t:time"), KeyCodec::Tuple, KeyCodec::Raw, KeyCodec::Hex] {
            for key in [&key, &raw] {
                if let Some(text) = codec.print(key) {
                    prop_assert_eq!(&codec.parse(text.as_bytes()).unwrap(), key);
                }
            }
        }
    }

    #[test]
    fn any_text_parses_or_is_refused(text: Vec<u8>) {
        for codec in [codec("a,n:int,x:float,t:time"), codec("t:time"), KeyCodec::Tuple, KeyCodec::Raw] {
            let _ = codec.parse(&text);
            let _ = codec.parse_prefix(&text);
        }
    }
}

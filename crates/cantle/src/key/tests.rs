use super::*;
use proptest::prelude::*;

fn part() -> impl Strategy<Value = Part> {
    let leaf = prop_oneof![
        Just(Part::Null),
        prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..6).prop_map(Part::Bytes),
        "[a\0é\u{10ffff}]{0,4}".prop_map(Part::Text),
        any::<i64>().prop_map(Part::Int),
        (-70_000i64..70_000).prop_map(Part::Int),
        prop::sample::select(vec![i64::MIN, i64::MIN + 1, -256, -255, -1, 0, 255, 256, i64::MAX])
            .prop_map(Part::Int),
        any::<u64>().prop_map(|bits| Part::Float(f64::from_bits(bits))),
        prop::sample::select(vec![0.0, -0.0, 1.5, f64::INFINITY, f64::NAN, -f64::NAN]).prop_map(Part::Float),
        any::<bool>().prop_map(Part::Bool),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Part::Nested))
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    prop::collection::vec(part(), 0..5)
}

proptest! {
    #[test]
    fn encodings_sort_as_their_parts(a in parts(), b in parts()) {
        prop_assert_eq!(encode(&a).cmp(&encode(&b)), a.cmp(&b));
    }

    #[test]
    fn sequences_with_a_common_start_sort_as_their_parts(start in parts(), a in part(), b in part()) {
        let with = |last: &Part| start.iter().chain([last]).cloned().collect::<Vec<_>>();
        prop_assert_eq!(encode(&with(&a)).cmp(&encode(&with(&b))), a.cmp(&b));
    }

    #[test]
    fn parts_come_back_as_they_were(parts in parts()) {
        prop_assert_eq!(parse(&encode(&parts)).unwrap(), parts);
    }

    #[test]
    fn a_range_holds_what_begins_with_its_parts_and_nothing_else(start in parts(), other in parts()) {
        prop_assert_eq!(range_of(&start).contains(&encode(&other)), other.starts_with(&start));
    }

    #[test]
    fn any_bytes_are_refused_or_encode_to_themselves(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(parts) = parse(&bytes) {
            prop_assert_eq!(encode(&parts), bytes);
        }
    }

    #[test]
    fn bytes_that_look_like_codes_are_refused_or_encode_to_themselves(
        bytes in prop::collection::vec(prop_oneof![0u8..0x34, Just(0xff)], 0..64),
    ) {
        if let Ok(parts) = parse(&bytes) {
            prop_assert_eq!(encode(&parts), bytes);
        }
    }

    #[test]
    fn a_damaged_key_is_refused_or_encodes_to_itself(parts in parts(), at: prop::sample::Index, byte: u8) {
        let mut bytes = encode(&parts);
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(parts) = parse(&bytes) {
                prop_assert_eq!(encode(&parts), bytes);
            }
        }
    }
}

#[test]
fn the_encoding_is_that_of_the_tuple_layer() {
    // Examples of FoundationDB's design/tuple.md.
    assert_eq!(encode(&(b"foo\x00bar",)), b"\x01foo\x00\xffbar\x00");
    assert_eq!(encode(&("F\u{d4}O\u{0}bar",)), b"\x02F\xc3\x94O\x00\xffbar\x00");
    assert_eq!(encode(&(-5_551_212i64,)), b"\x11\xabK\x93");
    let nested = [Part::Nested(vec![Part::Bytes(b"foo\x00bar".to_vec()), Part::Null, Part::Nested(vec![])])];
    assert_eq!(encode(nested.as_slice()), b"\x05\x01foo\x00\xffbar\x00\x00\xff\x05\x00\x00");
}

#[test]
fn a_key_that_nests_without_end_is_refused() {
    for levels in [32, 33, 65_536] {
        let mut key = vec![0x05; levels];
        key.extend(vec![0x00; levels]);
        assert_eq!(parse(&key).is_ok(), levels == 32, "{levels} levels");
    }
    assert!(parse(&[0x05; 65_536]).is_err());
}

#[test]
fn an_integer_with_leading_zeros_is_refused() {
    assert_eq!(parse(b"\x15\x05").unwrap(), [Part::Int(5)]);
    let error = parse(b"\x16\x00\x05").unwrap_err();
    assert!(error.to_string().contains("not the shortest"), "{error}");
}

#[test]
fn no_parts_are_the_empty_key() {
    assert_eq!(encode(&Vec::<Part>::new()), b"");
    assert_eq!(parse(b"").unwrap(), []);
}

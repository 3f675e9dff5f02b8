use super::*;
use proptest::prelude::*;

pub(super) fn part() -> impl Strategy<Value = Part> {
    let big = |len| {
        (any::<bool>(), prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], len))
            .prop_map(|(is_negative, bytes)| Part::from(BigInt::from_magnitude(is_negative, &bytes).unwrap()))
    };
    let leaf = prop_oneof![
        big(0..12),
        big(253..256),
        any::<i128>().prop_map(Part::from),
        any::<u32>().prop_map(|bits| Part::Float32(f32::from_bits(bits))),
        prop::sample::select(vec![0.0, -0.0, -42.0, f32::INFINITY, f32::NAN]).prop_map(Part::Float32),
        any::<[u8; 16]>().prop_map(Part::Uuid),
        any::<[u8; 12]>().prop_map(Part::Versionstamp),
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
    assert_eq!(encode(&(-5_551_212,)), b"\x11\xabK\x93");
    assert_eq!(encode(&-1), b"\x13\xfe");
    assert_eq!(encode(&-42f32), b"\x20\x3d\xd7\xff\xff");
    let nested = [Part::Nested(vec![Part::Bytes(b"foo\x00bar".to_vec()), Part::Null, Part::Nested(vec![])])];
    assert_eq!(encode(nested.as_slice()), b"\x05\x01foo\x00\xffbar\x00\x00\xff\x05\x00\x00");
    assert_eq!(encode(&((b"foo\x00bar", None::<i8>, ()),)), encode(nested.as_slice()));
}

/// The codes that the document describes in words.
#[test]
fn the_codes_are_those_of_the_tuple_layer() {
    assert_eq!(encode(&None::<bool>), [0x00]);
    assert_eq!(encode(&(0, 1, 255, 256)), [0x14, 0x15, 1, 0x15, 255, 0x16, 1, 0]);
    assert_eq!(encode(&(-255, -256)), [0x13, 0, 0x12, 0xfe, 0xff]);
    assert_eq!(encode(&u64::MAX), [[0x1c].as_slice(), &[0xff; 8]].concat());
    assert_eq!(encode(&-i128::from(u64::MAX)), [[0x0c].as_slice(), &[0; 8]].concat());
    assert_eq!(encode(&i64::MIN), [[0x0c, 0x7f].as_slice(), &[0xff; 7]].concat());
    // From 9 bytes on the length follows, turned in negative numbers.
    assert_eq!(encode(&(1u128 << 64)), [0x1d, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encode(&-(1i128 << 64)), [0x0b, 0xf6, 0xfe, 255, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!(encode(&u128::MAX), [[0x1d, 16].as_slice(), &[0xff; 16]].concat());
    assert_eq!(encode(&i128::MIN), [[0x0b, 0xef, 0x7f].as_slice(), &[0xff; 15]].concat());
    assert_eq!(encode(&1.0f64), [0x21, 0xbf, 0xf0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encode(&-1.0f64), [0x21, 0x40, 0x0f, 255, 255, 255, 255, 255, 255]);
    assert_eq!(encode(&(false, true)), [0x26, 0x27]);
    assert_eq!(encode(&Part::Uuid([7; 16])), [[0x30].as_slice(), &[7; 16]].concat());
    assert_eq!(encode(&Part::Versionstamp([7; 12])), [[0x33].as_slice(), &[7; 12]].concat());
}

/// The same by another implementation, of what it can write.
fn packed(part: &Part) -> Option<Vec<u8>> {
    use foundationdb_tuple::{Element, Versionstamp, pack};
    fn element(part: &Part) -> Option<Element<'_>> {
        Some(match part {
            Part::Null => Element::Nil,
            Part::Bytes(bytes) => Element::Bytes(bytes.as_slice().into()),
            Part::Text(text) => Element::String(text.as_str().into()),
            Part::Nested(parts) => Element::Tuple(parts.iter().map(element).collect::<Option<_>>()?),
            Part::Int(int) => Element::Int(*int),
            Part::Float32(float) => Element::Float(*float),
            Part::Float(float) => Element::Double(*float),
            Part::Bool(bool) => Element::Bool(*bool),
            Part::Versionstamp(stamp) => Element::Versionstamp(Versionstamp::from(*stamp)),
            _ => return None,
        })
    }
    match part {
        Part::BigInt(int) => match (i128::try_from(int), u128::try_from(int)) {
            (Ok(int), _) => Some(pack(&int)),
            (_, Ok(int)) => Some(pack(&int)),
            _ => None,
        },
        other => element(other).map(|element| pack(&(element,))),
    }
}

proptest! {
    #[test]
    fn keys_are_byte_for_byte_those_of_another_implementation(part in part()) {
        if let Some(packed) = packed(&part) {
            prop_assert_eq!(encode(&part), packed);
        }
    }
}

#[test]
fn a_part_of_a_type_that_nobody_writes_is_refused_by_its_code() {
    for code in [0x03, 0x04, 0x0a, 0x1e, 0x22, 0x25, 0x31, 0x32, 0x40, 0xff] {
        let error = parse(&[0x14, code, 1, 2, 3]).unwrap_err().to_string();
        assert!(error.contains(&format!("type code 0x{code:02x}")), "{error}");
    }
}

#[test]
fn a_key_that_is_cut_short_is_refused() {
    let whole = encode(&("a", b"b", 300, -(1i128 << 70), 1.5f32, 2.5, Part::Uuid([1; 16]), (1, "x")));
    let ends: Vec<usize> = (1..whole.len()).filter(|&end| parse(&whole[..end]).is_ok()).collect();
    // After each part but the last.
    assert_eq!(ends.len(), 7, "{ends:?}");
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
    let long = |code, len, first, rest| [[code, len, first].as_slice(), &[rest; 8]].concat();
    assert!(parse(&long(0x1d, 9, 1, 0)).is_ok() && parse(&long(0x0b, 0xf6, 0xfe, 0xff)).is_ok());
    for key in [
        b"\x16\x00\x05".to_vec(),
        b"\x12\xff\x05".to_vec(),
        b"\x1d\x01\x05".to_vec(),
        b"\x1d\x08\x01\x02\x03\x04\x05\x06\x07\x08".to_vec(),
        b"\x1d\x00".to_vec(),
        b"\x0b\xff".to_vec(),
        long(0x1d, 9, 0, 1),
        long(0x0b, 0xf6, 0xff, 1),
    ] {
        let error = parse(&key).unwrap_err();
        assert!(error.to_string().contains("not the shortest"), "{error}");
    }
}

#[test]
fn no_parts_are_the_empty_key() {
    assert_eq!(encode(&Vec::<Part>::new()), b"");
    assert_eq!(parse(b"").unwrap(), []);
}

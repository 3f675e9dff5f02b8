//! Rust's types as keys: order, round trips, and what is refused.

use super::tests::part;
use super::*;
use proptest::prelude::*;
use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The values' encodings sort as they do by `order`, alone and as parts, and each is read back.
fn sort_and_return<T: ToKey + FromKey + Debug + Clone>(
    a: &T,
    b: &T,
    order: impl Fn(&T, &T) -> std::cmp::Ordering,
) {
    let key = |value: &T| try_encode(value).unwrap();
    assert_eq!(key(a).cmp(&key(b)), order(a, b), "{a:?} {b:?}");
    let within = |value: &T| try_encode(&(("x", value.clone()), 7)).unwrap();
    assert_eq!(within(a).cmp(&within(b)), order(a, b), "{a:?} {b:?}");
    assert!(order(&decode::<T>(&key(a)).unwrap(), a).is_eq(), "{a:?}");
    let ((text, back), seven): ((String, T), u8) = decode(&within(a)).unwrap();
    assert!(text == "x" && seven == 7 && order(&back, a).is_eq(), "{a:?}");
    let parts = try_encode(&(a.clone(), b.clone())).unwrap();
    let first = try_range_of(&(a.clone(),)).unwrap();
    assert!(first.contains(&parts), "{a:?} {b:?}");
}

/// Values of a type, those at its ends and around zero more often.
macro_rules! values_sort {
    ($($name:ident: $type:ty, $values:expr;)+) => {
        proptest! {$(
            #[test]
            fn $name(a in $values, b in $values) {
                sort_and_return::<$type>(&a, &b, |a, b| a.cmp(b));
            }
        )+}
    };
}

macro_rules! ints {
    ($type:ident) => {
        prop_oneof![
            any::<$type>(),
            (0u32..$type::BITS, any::<$type>()).prop_map(|(shift, int)| int >> shift),
            prop::sample::select(vec![$type::MIN, $type::MIN + 1, 0, 1, $type::MAX - 1, $type::MAX]),
        ]
    };
}

fn text() -> impl Strategy<Value = String> {
    "[a\0é\u{10ffff}]{0,4}"
}

fn time() -> impl Strategy<Value = Time> {
    prop_oneof![any::<i64>(), -2_000_000i64..2_000_000].prop_map(Time::from_micros)
}

values_sort! {
    i8_sorts: i8, ints!(i8);
    i16_sorts: i16, ints!(i16);
    i32_sorts: i32, ints!(i32);
    i64_sorts: i64, ints!(i64);
    i128_sorts: i128, ints!(i128);
    isize_sorts: isize, ints!(isize);
    u8_sorts: u8, ints!(u8);
    u16_sorts: u16, ints!(u16);
    u32_sorts: u32, ints!(u32);
    u64_sorts: u64, ints!(u64);
    u128_sorts: u128, ints!(u128);
    usize_sorts: usize, ints!(usize);
    bool_sorts: bool, any::<bool>();
    chars_sort: char, prop_oneof![any::<char>(), Just('\0'), Just('\u{10ffff}')];
    texts_sort: String, text();
    bytes_sort: Vec<u8>, prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..5);
    arrays_of_bytes_sort: [u8; 3], prop::array::uniform3(prop_oneof![Just(0u8), Just(0xff)]);
    arrays_sort: [i16; 2], prop::array::uniform2(any::<i16>());
    lists_sort: Vec<Option<i32>>, prop::collection::vec(any::<Option<i32>>(), 0..4);
    lists_of_lists_sort: Vec<Vec<String>>, prop::collection::vec(prop::collection::vec(text(), 0..3), 0..3);
    options_sort: Option<String>, prop::option::of(text());
    times_sort: Time, time();
    system_times_sort: SystemTime, time().prop_map(|time| time.try_into().unwrap());
    parts_sort: Part, part();
    tuples_sort: (String, Option<u64>, bool), (text(), any::<Option<u64>>(), any::<bool>());
    nested_tuples_sort: ((Option<String>, i128), Vec<u8>, (), char),
        ((prop::option::of(text()), ints!(i128)), prop::collection::vec(any::<u8>(), 0..3), Just(()), any::<char>());
}

proptest! {
    #[test]
    fn f64_sorts_in_total_order(a: u64, b: u64) {
        sort_and_return(&f64::from_bits(a), &f64::from_bits(b), f64::total_cmp);
    }

    #[test]
    fn f32_sorts_in_total_order(a: u32, b: u32) {
        sort_and_return(&f32::from_bits(a), &f32::from_bits(b), f32::total_cmp);
    }

    #[test]
    fn integers_of_all_widths_are_one_type(int: i8, long in ints!(i128)) {
        let key = encode(&i128::from(int));
        prop_assert_eq!(&encode(&int), &key);
        prop_assert_eq!(&encode(&i64::from(int)), &key);
        prop_assert_eq!(encode(&Part::from(long)), encode(&long));
        prop_assert_eq!(encode(&BigInt::from(long)), encode(&long));
        prop_assert_eq!(decode::<BigInt>(&encode(&long)).unwrap(), BigInt::from(long));
        prop_assert_eq!(decode::<u64>(&encode(&long)).ok(), u64::try_from(long).ok());
        prop_assert_eq!(decode::<i16>(&encode(&long)).ok(), i16::try_from(long).ok());
        prop_assert_eq!(decode::<u128>(&encode(&long)).ok(), u128::try_from(long).ok());
        prop_assert_eq!(BigInt::from(long).to_string(), long.to_string());
    }

    #[test]
    fn integers_of_any_size_sort(a in big_int(), b in big_int()) {
        sort_and_return(&a, &b, |a, b| a.cmp(b));
        prop_assert_eq!(encode(&Part::from(a.clone())), encode(&a));
    }

    #[test]
    fn any_bytes_are_refused_or_read_as_any_type(
        bytes in prop::collection::vec(prop_oneof![0u8..0x34, Just(0xff), any::<u8>()], 0..64),
    ) {
        type Long = (Part, Part, Part, Part, Part, Part, Part, Part, Part, Part);
        let _ = decode::<Long>(&bytes);
        let _ = decode::<((i8, u128), String)>(&bytes);
        let _ = decode::<(Vec<u8>, [Option<char>; 2], Time)>(&bytes);
        let _ = decode::<(SystemTime, f32)>(&bytes);
        if let Ok(parts) = decode::<Vec<Part>>(&bytes) {
            prop_assert_eq!(encode(&parts), &bytes[..]);
        }
        if let Ok((text, int)) = decode::<(String, u64)>(&bytes) {
            prop_assert_eq!(encode(&(text, int)), bytes);
        }
    }

    #[test]
    fn times_are_rounded_as_their_names_say(seconds in -4_000_000_000i64..4_000_000_000, nanos in 0u32..1_000_000_000) {
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let second = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
        let time = second + Duration::from_nanos(nanos.into());
        let all = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        let down = i64::try_from(all.div_euclid(1_000)).unwrap();
        let rest = all.rem_euclid(1_000);
        prop_assert_eq!(Time::floor(time).unwrap().micros(), down);
        prop_assert_eq!(Time::ceil(time).unwrap().micros(), down + i64::from(rest > 0));
        prop_assert_eq!(Time::round(time).unwrap().micros(), down + i64::from(rest >= 500));
        prop_assert_eq!(Time::exact(time).ok(), (rest == 0).then_some(Time::from_micros(down)));
        prop_assert_eq!(try_encode(&("x", time)).is_ok(), rest == 0);
    }
}

fn big_int() -> impl Strategy<Value = BigInt> {
    let bytes = prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..20);
    (any::<bool>(), bytes).prop_map(|(sign, bytes)| BigInt::from_magnitude(sign, &bytes).unwrap())
}

#[test]
fn tuples_have_up_to_16_parts() {
    let tuple = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, "16");
    assert_eq!(parse(&encode(&tuple)).unwrap().len(), 16);
    type Wide = (u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, u8, String);
    let back: Wide = decode(&encode(&tuple)).unwrap();
    assert_eq!((back.0, back.14, back.15.as_str()), (1, 15, "16"));
}

#[test]
fn a_key_of_another_type_is_refused_by_the_part_that_differs() {
    let key = encode(&("UA", 300, (1, "x")));
    for (error, said) in [
        (decode::<(String, u8, (u8, String))>(&key).unwrap_err(), "part 2: integer 300 does not fit into u8"),
        (decode::<(String, String, Part)>(&key).unwrap_err(), "part 2: integer 300 is not a text"),
        (decode::<(String, u16, (u8, u8))>(&key).unwrap_err(), "part 3.2: text \"x\" is not an integer"),
        (decode::<(String, u16)>(&key).unwrap_err(), "it goes on after 2 parts"),
        (decode::<(String, u16, (u8,))>(&key).unwrap_err(), "part 3: it goes on after 1 parts"),
        (
            decode::<(String, u16, Part, bool)>(&key).unwrap_err(),
            "it ends after 3 parts, and bool is to follow",
        ),
        (decode::<String>(&encode(&"x\0")[..2]).unwrap_err(), "it is cut short"),
        (decode::<[i32; 2]>(&encode(&[1, 2, 3])).unwrap_err(), "it has 3 elements, and the array has 2"),
        (decode::<char>(&encode("ab")).unwrap_err(), "text \"ab\" is not a single character"),
    ] {
        let error = error.to_string();
        assert!(error.contains("is not a key of the type") && error.contains(said), "{error}");
    }
}

#[test]
fn a_time_finer_than_a_microsecond_is_an_error_that_names_it_and_the_way() {
    let time = UNIX_EPOCH + Duration::from_nanos(1_372_928_400_000_000_789);
    let error = try_encode(&("EWR", (1, time))).unwrap_err().to_string();
    assert!(error.contains("part 2.2: the time 2013-07-04T09:00:00.000000789Z is finer"), "{error}");
    assert!(error.contains("cantle::key::Time::floor"), "{error}");
}

#[test]
fn a_time_out_of_range_is_an_error() {
    let far = UNIX_EPOCH + Duration::from_secs(1 << 53);
    for result in [Time::floor(far), Time::ceil(far), Time::round(far), Time::exact(far)] {
        assert!(result.unwrap_err().to_string().contains("out of range"));
    }
    let last = SystemTime::try_from(Time::MAX).unwrap();
    assert_eq!(Time::exact(last).unwrap(), Time::MAX);
    assert!(Time::ceil(last + Duration::from_nanos(1)).is_err());
    assert_eq!(Time::exact(SystemTime::try_from(Time::MIN).unwrap()).unwrap(), Time::MIN);
}

#[test]
fn times_are_shown_in_utc() {
    for (micros, shown) in [
        (0, "1970-01-01T00:00:00Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_372_928_400_000_000, "2013-07-04T09:00:00Z"),
        (951_782_400_500_000, "2000-02-29T00:00:00.5Z"),
        (-62_167_219_200_000_000, "0000-01-01T00:00:00Z"),
        (-62_167_219_200_000_001, "-0001-12-31T23:59:59.999999Z"),
        (i64::MAX, "+294247-01-10T04:00:54.775807Z"),
        (i64::MIN, "-290308-12-21T19:59:05.224192Z"),
    ] {
        assert_eq!(Time::from_micros(micros).to_string(), shown);
    }
}

#[test]
fn an_integer_longer_than_a_key_can_hold_is_none() {
    assert!(BigInt::from_magnitude(false, &[1; 256]).is_none());
    let longest = BigInt::from_magnitude(true, &[&[0; 9][..], &[0xff; 255]].concat()).unwrap();
    assert_eq!(longest.magnitude().len(), 255);
    assert_eq!(parse(&encode(&longest)).unwrap(), [Part::BigInt(longest)]);
    assert_eq!(BigInt::from_magnitude(true, &[]).unwrap(), BigInt::from(0u64));
    assert_eq!(
        BigInt::from_magnitude(true, &[1, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap().to_string(),
        "-18446744073709551616"
    );
}

#[test]
fn a_key_is_described_by_its_parts() {
    let uuid = Part::Uuid([0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let key = encode(&("é\"", b"\0", -1, (0.5, 0.5f32), true, None::<i8>, u128::MAX, uuid));
    let said = "(\"é\\\"\", b\"\\x00\", -1, (0.5, 0.5f32), true, null, 340282366920938463463374607431768211455, \
                12345678-9abc-def0-0102-030405060708)";
    assert_eq!(describe(&key), said);
    assert_eq!(describe(b"\xff"), "b\"\\xff\"");
}

#[cfg(feature = "uuid")]
proptest! {
    #[test]
    fn uuids_sort(a: u128, b: u128) {
        let [a, b] = [a, b].map(::uuid::Uuid::from_u128);
        sort_and_return(&a, &b, |a, b| a.cmp(b));
        prop_assert_eq!(encode(&a), encode(&Part::Uuid(a.into_bytes())));
    }
}

#[cfg(feature = "jiff")]
mod of_jiff {
    use super::*;
    use jiff::civil::{Date, DateTime};
    use jiff::{Timestamp, ToSpan};

    proptest! {
        #[test]
        fn timestamps_sort(a in -377_705_023_201_000_000i64..=253_402_207_200_999_999, b: i32) {
            let [a, b] = [a, b.into()].map(|micros| Timestamp::from_microsecond(micros).unwrap());
            sort_and_return(&a, &b, |a, b| a.cmp(b));
            prop_assert_eq!(try_encode(&a).unwrap(), encode(&a.as_microsecond()));
            if a >= Timestamp::UNIX_EPOCH {
                prop_assert_eq!(Time::exact(a).unwrap().to_string(), a.to_string());
            }
        }

        #[test]
        fn civil_times_and_dates_sort(days in 0i32..7_304_483, other in 0i32..7_304_483, micros in 0i64..86_400_000_000) {
            let date = |days: i32| Date::MIN.checked_add(days.days()).unwrap();
            sort_and_return(&date(days), &date(other), |a, b| a.cmp(b));
            let at = |days| date(days).at(0, 0, 0, 0).checked_add(micros.microseconds()).unwrap();
            sort_and_return::<DateTime>(&at(days), &at(other), |a, b| a.cmp(b));
            prop_assert!(range_of(&date(days)).start <= try_encode(&at(days)).unwrap());
            prop_assert_eq!(decode::<Date>(&try_encode(&at(days)).unwrap()).is_ok(), micros == 0);
        }
    }

    #[test]
    fn times_of_jiff_are_those_of_the_standard_library() {
        let time: Timestamp = "1969-07-20T20:17:40.000001Z".parse().unwrap();
        assert_eq!(try_encode(&time).unwrap(), try_encode(&SystemTime::from(time)).unwrap());
        let civil: DateTime = "1969-07-20T20:17:40.000001".parse().unwrap();
        assert_eq!(try_encode(&civil).unwrap(), try_encode(&time).unwrap());
        assert_eq!(encode(&civil.date()), encode(&(-14_256_000_000_000i64)));
        let fine: Timestamp = "1969-07-20T20:17:40.000000001Z".parse().unwrap();
        assert!(try_encode(&fine).unwrap_err().to_string().contains("1969-07-20T20:17:40.000000001Z"));
        assert_eq!(Time::floor(fine).unwrap().micros(), -14_182_940_000_000);
        for end in [DateTime::MIN, DateTime::MAX] {
            let floor = Time::floor(end).unwrap();
            assert!(decode::<DateTime>(&encode(&floor)).is_ok());
        }
        let error = decode::<Timestamp>(&encode(&Time::MAX)).unwrap_err().to_string();
        assert!(error.contains("+294247") && error.contains("jiff has the years"), "{error}");
    }
}

use super::csv::{CsvFile, DELIMITER};
use super::ndjson::{self, NdjsonShape};
use super::table::Table;
use super::tsv::{TsvRows, TsvShape, TsvTable};
use super::write::{Exporter, FileFormat, json_line, text_line};
use super::*;
use crate::failure::Failure;
use crate::keyfmt::{KeyCodec, Round};
use crate::schema::{KeyColumns, Schema};
use cantle::key;
use proptest::prelude::*;

type Pairs = Vec<(u64, Result<(Vec<u8>, Vec<u8>), String>)>;

fn schema(key: &str, value: ValueForm) -> Schema {
    Schema { key: key.parse::<KeyColumns>().unwrap().0, value, types: None }
}

fn columns(names: &[&str]) -> ValueForm {
    ValueForm::Csv(names.iter().map(ToString::to_string).collect())
}

impl Rows for Box<dyn Rows> {
    fn next_row(&mut self) -> Outcome<Option<Row>> {
        (**self).next_row()
    }
}

fn drain(rows: impl Rows + 'static) -> Pairs {
    let (pairs, error) = drain_to_error(Box::new(rows));
    assert!(error.is_none(), "{error:?}");
    pairs
}

fn drain_to_error(mut rows: Box<dyn Rows>) -> (Pairs, Option<Failure>) {
    let mut pairs = Vec::new();
    loop {
        match rows.next_row() {
            Ok(Some(row)) => pairs.push((row.line, row.pair)),
            Ok(None) => return (pairs, None),
            Err(failure) => return (pairs, Some(failure)),
        }
    }
}

fn csv_file(text: &[u8]) -> Box<CsvFile<std::io::Cursor<Vec<u8>>>> {
    Box::new(CsvFile::new(std::io::Cursor::new(text.to_vec()), "test".into(), DELIMITER).unwrap())
}

fn ndjson_rows(text: &[u8], schema: &Schema) -> Box<dyn Rows> {
    ndjson::rows(std::io::Cursor::new(text.to_vec()), "test".into(), ndjson_shape(schema)).unwrap()
}

fn csv_pairs(text: &[u8], schema: &Schema) -> Pairs {
    let file = csv_file(text);
    let names = file.header().columns().to_vec();
    drain(file.rows(schema, &names[1..], Round::Exact).unwrap())
}

fn ndjson_shape(schema: &Schema) -> NdjsonShape {
    NdjsonShape { codec: KeyCodec::new(None, schema), value: schema.value.clone(), columns: None }
}

fn tsv_shape(schema: &Schema) -> TsvShape {
    TsvShape { codec: KeyCodec::new(None, schema), value: schema.value.clone(), escapes: true }
}

#[test]
fn rows_have_the_number_of_their_first_line_whatever_ends_lines() {
    let schema = schema("k:int", columns(&["v"]));
    for end in ["\n", "\r\n"] {
        for last in [end, ""] {
            let lines = ["k,v", "1,a", "2,\"two@lines\"", "3", "@@x,c", "5,\"\"", "6,d"];
            let text = lines.join(end).replace('@', end) + last;
            let pairs = csv_pairs(text.as_bytes(), &schema);
            let numbers: Vec<u64> = pairs.iter().map(|pair| pair.0).collect();
            assert_eq!(numbers, [2, 3, 5, 8, 9, 10], "{text:?}");
            let wrong: Vec<u64> = pairs.iter().filter(|pair| pair.1.is_err()).map(|pair| pair.0).collect();
            assert_eq!(wrong, [5, 8], "{text:?}");
        }
    }
}

#[test]
fn a_quote_that_is_never_closed_is_an_error_on_its_line() {
    let schema = schema("k:int", columns(&["v"]));
    for text in ["k,v\r1,\"a\nb\n", "k,v\n1,\"a\nb\n", "k,v\n1,\"\n"] {
        let opens = text.lines().position(|line| line.contains('"')).unwrap() + 1;
        let rows = csv_file(text.as_bytes()).rows(&schema, &[], Round::Exact).unwrap();
        let (pairs, error) = drain_to_error(rows);
        let message = error.unwrap().message().unwrap().to_owned();
        assert!(pairs.is_empty(), "{pairs:?}");
        let says = format!("cannot read test from line {opens} on: a quote opens there and is never closed");
        assert_eq!(message, says, "{text:?}");
    }
}

#[test]
fn line_numbers_hold_across_the_ends_of_buffers() {
    let schema = schema("k:int", columns(&["v"]));
    for end in ["\n", "\r\n"] {
        let mut text = format!("k,v{end}");
        for row in 0..60_000 {
            text += &format!("{row},\"{}\"{end}", "x".repeat(row % 17));
        }
        let pairs = csv_pairs(text.as_bytes(), &schema);
        assert_eq!(pairs.len(), 60_000);
        for (index, (line, _)) in pairs.iter().enumerate() {
            assert_eq!(*line, index as u64 + 2);
        }
    }
}

#[test]
fn a_csv_row_becomes_a_key_and_a_record() {
    let text = b"a,n,v,w\nx,-5,\"1,2\",\n,,\xff,\"say \"\"hi\"\"\"\n";
    let pairs = csv_pairs(text, &schema("a,n:int", columns(&["v", "w"])));
    let expected = [
        (key::encode(&("x", -5i64)), b"\"1,2\",".to_vec()),
        (key::encode(&(None::<&str>, None::<i64>)), b"\xff,\"say \"\"hi\"\"\"".to_vec()),
    ];
    let pairs: Vec<_> = pairs.into_iter().map(|pair| pair.1.unwrap()).collect();
    assert_eq!(pairs, expected);
}

#[test]
fn a_csv_row_can_be_kept_as_an_object() {
    let pairs = csv_pairs(b"a,v,w\nx,1,\"q\"\"\"\ny,\xff,\n", &schema("a", ValueForm::Json));
    assert_eq!(pairs[0].1.as_ref().unwrap().1, br#"{"v":"1","w":"q\""}"#);
    assert!(pairs[1].1.as_ref().unwrap_err().contains("\"v\" is not UTF-8"));
}

#[test]
fn a_column_that_is_missing_or_there_twice_is_named() {
    for (header, says) in [("b,v", "no column \"a\""), ("a,a,v", "several columns \"a\"")] {
        let file = csv_file(header.as_bytes());
        let error = file.rows(&schema("a", columns(&["v"])), &[], Round::Exact).err().unwrap();
        assert!(error.message().unwrap().contains(says), "{error:?}");
    }
}

#[test]
fn huge_fields_are_rows_like_any_other() {
    let huge = "x".repeat(3 << 20);
    let text = format!("k,v\n1,\"{huge}\"\n2,b\n");
    let pairs = csv_pairs(text.as_bytes(), &schema("k:int", columns(&["v"])));
    assert_eq!(pairs[0].1.as_ref().unwrap().1.len(), huge.len());
    assert_eq!(pairs[1].0, 3);
}

#[test]
fn a_quote_that_is_never_closed_ends_the_file_instead_of_filling_the_memory() {
    let text = format!("k,v\n1,a\n2,\"{}", "x\n".repeat(1 << 20));
    let text = std::io::Cursor::new(text);
    let file = Box::new(CsvFile::with_row_limit(text, "test".into(), DELIMITER, 1 << 19).unwrap());
    let mut rows = file.rows(&schema("k:int", columns(&["v"])), &[], Round::Exact).unwrap();
    assert_eq!(rows.next_row().unwrap().unwrap().line, 2);
    let error = rows.next_row().err().unwrap();
    assert!(error.message().unwrap().contains("test from line 3 on: the row is too long"), "{error:?}");
}

#[test]
fn fields_that_no_column_is_for_are_counted_and_not_kept() {
    let mut record = super::records::Record::new(2);
    for round in 0..2 {
        record.clear();
        for field in ["a", "", "long", "b"] {
            record.extend(field.as_bytes());
            record.end_field(false);
        }
        assert_eq!(record.len(), 4, "{round}");
        let kept: Vec<_> = (0..4).map(|index| record.get(index)).collect();
        assert_eq!(kept, [Some(b"a".as_slice()), None, None, None]);
        assert_eq!(record.kept(), (1, 2), "bytes and fields");
    }
}

#[test]
fn a_row_or_header_of_delimiters_alone_is_an_error_on_its_line() {
    let schema = schema("k:int", columns(&["v"]));
    let many = ",".repeat(3_000_000);
    let pairs = csv_pairs(format!("k,v\n1,a\n{many}\n2,b\n").as_bytes(), &schema);
    let says = "3,000,001 fields where the header has 2".to_owned();
    assert_eq!(pairs[1], (3, Err(says.clone())));
    assert!(pairs[0].1.is_ok() && pairs[2].1.is_ok());
    let tabs = |text: String| TsvTable::new(std::io::Cursor::new(text), "test".into(), true);
    let table = Box::new(tabs(format!("k\tv\n{}\n", many.replace(',', "\t"))).unwrap());
    assert_eq!(drain(table.rows(&schema, &[], Round::Exact).unwrap()), [(2, Err(says))]);

    let says = "test line 1: the header has 3,000,001 columns (the most is 1,000,000)";
    let wide = std::io::Cursor::new(format!("{many}\n"));
    let csv = CsvFile::new(wide, "test".into(), DELIMITER).err().unwrap();
    let tsv = tabs(many.replace(',', "\t")).err().unwrap();
    for error in [csv, tsv] {
        assert!(error.message().unwrap().contains(says), "{error:?}");
    }
}

#[test]
fn tsv_rows_are_unescaped_and_bad_ones_reported() {
    let text = b"a\\x00\tv\\tw\twith tab\r\n\nno tab\n\\q\tx\n\t\n";
    let pairs = drain(TsvRows::new(text.as_slice(), "test".into(), tsv_shape(&Schema::default())));
    assert_eq!(pairs[0], (1, Ok((b"a\0".to_vec(), b"v\tw\twith tab".to_vec()))));
    assert_eq!(pairs[1], (3, Err("no tab between a key and a value".into())));
    assert_eq!(pairs[2].0, 4);
    assert!(pairs[2].1.as_ref().unwrap_err().contains("escape"));
    assert_eq!(pairs[3], (5, Ok((vec![], vec![]))));
}

#[test]
fn ndjson_rows_keep_their_values_digit_by_digit() {
    let text = br#"{"n":1,"big":123456789012345678901234567890.10,"nested": {"n" : 1e400},"s":"\u0041"}

{"n":"x"}
{"n":2,"n":3}
[1]
{"n":4"#;
    let schema = schema("n:int", ValueForm::Json);
    let pairs = drain(ndjson_rows(text, &schema));
    let value = br#"{"big":123456789012345678901234567890.10,"nested":{"n" : 1e400},"s":"\u0041"}"#;
    assert_eq!(pairs[0], (1, Ok((key::encode(&(1i64,)), value.to_vec()))));
    let numbers: Vec<u64> = pairs.iter().map(|pair| pair.0).collect();
    assert_eq!(numbers, [1, 3, 4, 5, 6]);
    assert!(pairs[1..].iter().all(|pair| pair.1.is_err()), "{pairs:?}");
}

#[test]
fn raw_pairs_are_strings_or_hexadecimal_in_ndjson() {
    let text = b"{\"key\":\"a\",\"value\":\"b\"}\n{\"key_hex\":\"ff\",\"value_hex\":\"00\"}\n{\"key\":\"a\"}\n{\"key\":\"a\",\"value\":\"b\",\"x\":1}\n";
    let pairs = drain(ndjson_rows(text, &Schema::default()));
    assert_eq!(pairs[0].1, Ok((b"a".to_vec(), b"b".to_vec())));
    assert_eq!(pairs[1].1, Ok((b"\xff".to_vec(), b"\0".to_vec())));
    assert!(pairs[2].1.is_err() && pairs[3].1.is_err());
}

#[test]
fn what_does_not_fit_the_columns_is_shown_but_not_exported() {
    let schema = schema("a,n:int", columns(&["v", "w"]));
    let codec = KeyCodec::new(None, &schema);
    let export =
        |key: &[u8], value: &[u8]| Exporter::new(FileFormat::Csv, &schema, &codec).unwrap().line(key, value);
    let key = key::encode(&("x", 5i64));
    assert_eq!(export(&key, b"1,2").unwrap(), b"x,5,1,2");
    for value in [b"1".as_slice(), b"1,2,3", b"\"1\",2", b"\"1", b""] {
        assert_eq!(export(&key, value), None, "{value:?}");
    }
    assert_eq!(export(b"raw", b"1,2"), None);
    assert_eq!(text_line(&codec, &schema.value, b"raw", b"1\xff"), b"0x726177\t1\\xff");
    assert_eq!(json_line(&codec, &schema.value, b"raw", b"1"), br#"{"key":{"hex":"726177"},"value":"1"}"#);
    assert_eq!(json_line(&codec, &schema.value, &key, b"1,2"), br#"{"a":"x","n":5,"v":"1","w":"2"}"#);
}

/// A line of an exporter reads back as the same pair.
fn check_export(
    format: FileFormat,
    schema: &Schema,
    key: &[u8],
    value: &[u8],
) -> Result<bool, TestCaseError> {
    let codec = KeyCodec::new(None, schema);
    let exporter = Exporter::new(format, schema, &codec).unwrap();
    let Some(line) = exporter.line(key, value) else { return Ok(false) };
    let mut file = exporter.header().map(|header| [header, b"\n".to_vec()].concat()).unwrap_or_default();
    file.extend(line);
    file.push(b'\n');
    let pairs = match format {
        FileFormat::Csv => drain(csv_file(&file).rows(schema, &[], Round::Exact).unwrap()),
        FileFormat::Ndjson => drain(ndjson_rows(&file, schema)),
        FileFormat::Tsv => drain(TsvRows::new(std::io::Cursor::new(file), "t".into(), tsv_shape(schema))),
        FileFormat::RocksdbDump => unreachable!("`load` does not read it"),
    };
    let line = 1 + u64::from(format == FileFormat::Csv);
    prop_assert_eq!(pairs, vec![(line, Ok((key.to_vec(), value.to_vec())))]);
    Ok(true)
}

fn field() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        Just(b','),
        Just(b'"'),
        Just(b'\n'),
        Just(b'\r'),
        Just(b'\t'),
        Just(b'\\'),
        Just(0xef),
        any::<u8>()
    ];
    prop::collection::vec(byte, 0..5)
}

proptest! {
    #[test]
    fn raw_pairs_export_exactly(key in field(), value in field()) {
        prop_assert!(check_export(FileFormat::Tsv, &Schema::default(), &key, &value)?);
        prop_assert!(check_export(FileFormat::Ndjson, &Schema::default(), &key, &value)?);
    }

    #[test]
    fn pairs_of_columns_export_exactly(text in "[a\",\\n\\r\\té]{1,4}", n: i64, bits: u64, fields in [prop::option::of(field()), prop::option::of(field())]) {
        let float = f64::from_bits(bits);
        prop_assume!(!float.is_nan());
        let schema = schema("a,n:int,x:float", columns(&["v", "w"]));
        let (key, value) = (key::encode(&(text.as_str(), n, float)), csvtext::record(&fields));
        prop_assert!(check_export(FileFormat::Csv, &schema, &key, &value)?);
        prop_assert!(check_export(FileFormat::Tsv, &schema, &key, &value)?);
    }

    #[test]
    fn any_pair_exports_exactly_or_not_at_all(key: Vec<u8>, composite in "[a\0\u{feff}]{0,2}", value in field()) {
        for form in [columns(&["v"]), columns(&["v", "w"]), ValueForm::Json, ValueForm::Raw] {
            let schema = schema("a", form);
            for key in [&key, &key::encode(&(composite.as_str(),))] {
                for format in [FileFormat::Tsv, FileFormat::Ndjson] {
                    check_export(format, &schema, key, &value)?;
                }
                if matches!(schema.value, ValueForm::Csv(_)) {
                    check_export(FileFormat::Csv, &schema, key, &value)?;
                }
            }
        }
    }
}

#[test]
fn a_value_of_one_empty_column_exports_exactly() {
    let schema = schema("a", columns(&["v"]));
    for key in [key::encode(&(None::<&str>,)), key::encode(&("x",))] {
        assert!(check_export(FileFormat::Csv, &schema, &key, b"\"\"").unwrap());
        assert!(check_export(FileFormat::Csv, &schema, &key, b"x").unwrap());
    }
}

#[test]
fn a_value_is_kept_in_one_way_only() {
    let value = |form: &ValueForm, text: &str| {
        value_of_bytes(form, text.into()).map(|v| String::from_utf8(v).unwrap())
    };
    let csv = columns(&["v", "w"]);
    assert_eq!(value(&csv, "\"1\",\"a,b\"").unwrap(), "1,\"a,b\"");
    assert!(value(&csv, "1").unwrap_err().contains("2 columns (v, w)"));
    assert_eq!(value(&ValueForm::Json, " {\"a\" : 1.0}").unwrap(), "{\"a\":1.0}");
    assert_eq!(value(&ValueForm::Json, " [1,\n  \"a\"]\n").unwrap(), "[1,\"a\"]");
    assert_eq!(value(&ValueForm::Json, "5").unwrap(), "5");
    for wrong in ["", "5 6", "[1", "{\"a\":1", "{} {}", "text"] {
        assert!(value(&ValueForm::Json, wrong).unwrap_err().contains("JSON"), "{wrong}");
    }
    assert_eq!(value(&ValueForm::Raw, "\"1").unwrap(), "\"1");
}

#[test]
fn json_that_is_no_object_is_shown_and_exports_exactly() {
    let schema = schema("a", ValueForm::Json);
    let codec = KeyCodec::new(None, &schema);
    let key = key::encode(&("x",));
    for json in ["[1,{\"b\":2}]", "5", "\"text\"", "null", "true", "1e400"] {
        let value = json.as_bytes();
        assert_eq!(text_line(&codec, &schema.value, &key, value), format!("x\t{json}").into_bytes());
        let shown = format!("{{\"a\":\"x\",\"value\":{json}}}");
        assert_eq!(json_line(&codec, &schema.value, &key, value), shown.into_bytes());
        for format in [FileFormat::Ndjson, FileFormat::Tsv] {
            assert!(check_export(format, &schema, &key, value).unwrap(), "{json}");
        }
    }
    // Objects stay objects, whatever their members are called.
    for object in ["{\"value\":5}", "{\"value_json\":{}}", "{\"value_json\":1,\"b\":2}", "{}"] {
        for format in [FileFormat::Ndjson, FileFormat::Tsv] {
            assert!(check_export(format, &schema, &key, object.as_bytes()).unwrap(), "{object}");
        }
    }
    let pairs = drain(ndjson_rows(b"{\"a\":\"x\",\"value\":5}\n", &schema));
    assert_eq!(pairs, [(1, Ok((key, b"{\"value\":5}".to_vec())))]);
}

#[test]
fn a_null_and_the_empty_text_stay_different_in_keys_and_values() {
    let schema = schema("a", columns(&["v", "w"]));
    let pairs = csv_pairs(b"a,v,w\n,,\"\"\n\"\",\"\",\n", &schema);
    let (null, empty) = (key::encode(&(None::<&str>,)), key::encode(&("",)));
    let expected = [(null, b",\"\"".to_vec()), (empty, b"\"\",".to_vec())];
    assert_eq!(pairs.into_iter().map(|pair| pair.1.unwrap()).collect::<Vec<_>>(), expected);
    let lines: [&[u8]; 2] = [br#"{"a":null,"v":null,"w":""}"#, br#"{"a":"","v":"","w":null}"#];
    let codec = KeyCodec::new(None, &schema);
    for ((key, value), line) in expected.iter().zip(lines) {
        assert_eq!(json_line(&codec, &schema.value, key, value), line);
        for format in [FileFormat::Csv, FileFormat::Ndjson, FileFormat::Tsv] {
            assert!(check_export(format, &schema, key, value).unwrap());
        }
        assert_eq!(drain(ndjson_rows(line, &schema)), [(1, Ok((key.clone(), value.clone())))]);
    }
}

#[test]
fn text_after_a_closing_quote_is_an_error_with_its_line_and_reading_goes_on() {
    let pairs = csv_pairs(b"k,v\n1,a\n2,\"b\"c\n3,\"d\n\"\ne\n4,f", &schema("k:int", columns(&["v"])));
    assert_eq!(pairs.iter().map(|pair| pair.0).collect::<Vec<_>>(), [2, 3, 4, 6, 7]);
    let wrong = pairs[1].1.as_ref().unwrap_err();
    assert!(wrong.contains("field 2 goes on after its closing quote"), "{wrong}");
    assert!(pairs[0].1.is_ok() && pairs[2].1.is_ok() && pairs[4].1.is_ok(), "{pairs:?}");
}

#[test]
fn a_table_of_tabs_has_nulls_and_escapes() {
    let schema = schema("a,n:int", columns(&["v", "w"]));
    let table = |text: &str, escapes| {
        let text = std::io::Cursor::new(text.to_owned());
        let table = Box::new(TsvTable::new(text, "test".into(), escapes).unwrap());
        drain(table.rows(&schema, &[], Round::Exact).unwrap())
    };
    let text = "\u{feff}v\ta\tn\tw\r\nx\\ty\tk\t5\t\\N\r\n\n\"q\"\t\\N\t\t\nshort\t1\n\\q\ta\t1\t2\n";
    let pairs = table(text, true);
    assert_eq!(pairs[0], (2, Ok((key::encode(&("k", 5i64)), b"x\ty,".to_vec()))));
    assert_eq!(pairs[1], (4, Ok((key::encode(&(None::<&str>, None::<i64>)), b"\"\"\"q\"\"\",".to_vec()))));
    assert_eq!(pairs[2], (5, Err("2 fields where the header has 4".into())));
    assert!(pairs[3].1.as_ref().unwrap_err().contains("escape"), "{pairs:?}");
    let pairs = table("v\ta\tn\tw\nC:\\new\t\\N\t1\t2\n", false);
    assert_eq!(pairs, [(2, Ok((key::encode(&("\\N", 1i64)), b"C:\\new,2".to_vec())))]);
}

#[test]
fn an_array_of_objects_is_read_element_by_element() {
    let schema = schema("n:int", ValueForm::Json);
    let text = b" \n[\n  {\"n\": 1, \"a\": [1,\n    2], \"s\": \"]},\\\"\\\\\"},\n  {\"n\": 2}, 5,\n\n{\"n\":3}\n]\n";
    let pairs = drain(ndjson_rows(text, &schema));
    let key = |n: i64| key::encode(&(n,));
    assert_eq!(pairs[0], (3, Ok((key(1), br#"{"a":[1,2],"s":"]},\"\\"}"#.to_vec()))));
    assert_eq!(pairs[1], (5, Ok((key(2), b"{}".to_vec()))));
    assert_eq!((pairs[2].0, pairs[2].1.is_err()), (5, true));
    assert_eq!(pairs[3], (7, Ok((key(3), b"{}".to_vec()))));
    assert_eq!(drain(ndjson_rows(b"[]", &schema)), []);
    let no_comma = drain(ndjson_rows(b"[{\"n\":1}\n{\"n\":2}]", &schema));
    assert!(no_comma[0].1.as_ref().unwrap_err().contains("trailing characters"), "{no_comma:?}");
    for (text, says) in [
        ("[{\"n\":1},", "line 1 on: the array is not closed"),
        ("[{\"n\":1},]", "']' stands where"),
        ("[{\"n\":1}]\nx", "line 2 on: there is something after the array"),
        ("[{\"n\":1", "within an element"),
    ] {
        let (_, error) = drain_to_error(ndjson_rows(text.as_bytes(), &schema));
        let error = error.unwrap().message().unwrap().to_owned();
        assert!(error.contains(says), "{text}: {error}");
    }
}

#[test]
fn a_key_column_that_an_object_lacks_is_an_error_and_types_are_offered() {
    let schema = schema("user,n:int,at:time", ValueForm::Json);
    for (line, says) in [
        (r#"{"usr":"a","n":1,"at":null}"#, "no member \"user\", a column of the key"),
        (r#"{"usr":"a","n":1,"at":null}"#, "it has usr, n, at"),
        (r#"{"user":5,"n":1,"at":null}"#, "column \"user\" is text, not 5 (user:int in --key takes it)"),
        (r#"{"user":5.5,"n":1,"at":null}"#, "(user:float in --key takes it)"),
        (r#"{"user":true,"n":1,"at":null}"#, "column \"user\" is text, not true"),
        (r#"{"user":"a","n":1.5,"at":null}"#, "(n:float in --key takes it)"),
        (r#"{"user":"a","n":"2013-07-04","at":null}"#, "(n:time in --key takes it)"),
        (r#"{"user":"a","n":1,"at":"2013-07-04T09:00:00.123456789Z"}"#, "(--round keeps its nearest"),
        ("{", "jq -c ."),
    ] {
        let pairs = drain(ndjson_rows(line.as_bytes(), &schema));
        let error = pairs[0].1.as_ref().unwrap_err();
        assert!(error.contains(says), "{line}: {error}");
    }
}

#[test]
fn a_file_with_another_delimiter_offers_it() {
    let error = csv_file(b"a;b;c\n").header().position("b").unwrap_err();
    assert!(error.message().unwrap().contains("it has a;b;c (--delimiter ';', perhaps?)"), "{error:?}");
    let file = CsvFile::new(std::io::Cursor::new("a;v\nx;\"1;\"\n"), "test".into(), b';').unwrap();
    let pairs = drain(Box::new(file).rows(&schema("a", columns(&["v"])), &[], Round::Exact).unwrap());
    assert_eq!(pairs, [(2, Ok((key::encode(&("x",)), b"1;".to_vec())))]);
}

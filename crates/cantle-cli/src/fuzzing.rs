//! The readers of text, for fuzzers: they refuse a text, or keep the pairs that they understood.

use crate::keyfmt::{KeyCodec, KeyFormat, Round};
use crate::row::csv::{self, CsvFile};
use crate::row::ndjson::{self, NdjsonShape};
use crate::row::table::Table;
use crate::row::tsv::{TsvRows, TsvShape};
use crate::row::write::{Exporter, FileFormat};
use crate::row::{Row, Rows};
use crate::schema::{KeyColumns, Schema, ValueForm};

/// Key columns that are drawn from by the first byte.
const KEYS: [&str; 4] = ["", "a", "a,n:int", "a,n:int,x:float,at:time"];

fn schema(draw: u8) -> Schema {
    let columns = |names: &[&str]| ValueForm::Csv(names.iter().map(ToString::to_string).collect());
    let value = match draw / 4 % 4 {
        0 => ValueForm::Raw,
        1 => ValueForm::Json,
        2 => columns(&["v"]),
        _ => columns(&["v", "w"]),
    };
    let key = KEYS[usize::from(draw % 4)].parse::<KeyColumns>().map(|columns| columns.0);
    Schema { key: key.unwrap_or_default(), value, types: None }
}

/// The rows of a file that can be understood; none if the file cannot.
fn rows(format: FileFormat, text: &[u8], schema: &Schema) -> Option<Vec<Row>> {
    let text = std::io::Cursor::new(text.to_vec());
    let codec = KeyCodec::new(None, schema);
    let value = schema.value.clone();
    let name = "file".to_owned();
    let mut rows: Box<dyn Rows> = match format {
        FileFormat::Csv => {
            let file = CsvFile::new(text, name, csv::DELIMITER).ok()?;
            let columns = file.header().columns().to_vec();
            Box::new(file).rows(schema, &columns, Round::Exact).ok()?
        }
        FileFormat::Ndjson => ndjson::rows(text, name, NdjsonShape { codec, value, columns: None }).ok()?,
        FileFormat::Tsv => Box::new(TsvRows::new(text, name, TsvShape { codec, value, escapes: true })),
        // For `import`, which `cantle-import` tests.
        FileFormat::RocksdbDump => return None,
    };
    let mut all = Vec::new();
    while let Some(row) = rows.next_row().ok()? {
        all.push(row);
    }
    Some(all)
}

/// Loads a file: the first byte says of what form and with which columns. A pair that was
/// understood can be written in every form that takes it, and reads back as the same pair.
pub fn loader(input: &[u8]) {
    let Some((&draw, text)) = input.split_first() else { return };
    let formats = [FileFormat::Csv, FileFormat::Ndjson, FileFormat::Tsv];
    let schema = schema(draw);
    let codec = KeyCodec::new(None, &schema);
    let lines = text.iter().filter(|&&byte| byte == b'\n').count() as u64 + 1;
    let format = formats[usize::from(draw / 16 % 3)];
    for row in rows(format, text, &schema).unwrap_or_default() {
        let is_there = (1..=lines.max(text.len() as u64)).contains(&row.line);
        assert!(is_there, "line {} of {lines} of {format:?}: {}", row.line, text.escape_ascii());
        let Ok((key, value)) = row.pair else { continue };
        for format in formats {
            let Ok(exporter) = Exporter::new(format, &schema, &codec) else { continue };
            let Some(line) = exporter.line(&key, &value) else { continue };
            // Keys without columns have raw values in files.
            let written = if schema.key.is_empty() { Schema::default() } else { schema.clone() };
            let lines = [exporter.header().unwrap_or_default(), line];
            let file = lines.join(&b"\n"[..]);
            let file = if exporter.header().is_none() { &file[1..] } else { &file[..] };
            let again = rows(format, file, &written).unwrap_or_default();
            let pairs: Vec<_> = again.into_iter().map(|row| row.pair).collect();
            assert_eq!(pairs, [Ok((key.clone(), value.clone()))], "{format:?}: {}", file.escape_ascii());
        }
    }
}

/// Parses a key and prints it, in every form: what was parsed prints, if at all, as a text that
/// parses to the same key. And takes the bytes for a key.
pub fn keys(input: &[u8]) {
    let Some((&draw, text)) = input.split_first() else { return };
    let schema = schema(draw);
    for format in [None, Some(KeyFormat::Raw), Some(KeyFormat::Hex), Some(KeyFormat::Tuple)] {
        let codec = KeyCodec::new(format, &schema);
        let parsed = codec.parse(text).ok();
        for key in [parsed.as_deref(), Some(text)].into_iter().flatten() {
            let shown = (codec.show(key), codec.show_start(key));
            assert!(key.is_empty() || !shown.0.is_empty() || !shown.1.is_empty() || codec == KeyCodec::Raw);
            if let Some(printed) = codec.print(key) {
                assert_eq!(
                    codec.parse(printed.as_bytes()).as_deref(),
                    Ok(key),
                    "{codec:?} prints {printed:?}"
                );
            }
        }
        if let Ok((start, Some(end))) = codec.parse_prefix(text) {
            assert!(start < end, "{codec:?}: {start:?} to {end:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Headers of the columns that [`schema`] draws.
    const HEADERS: [&str; 4] = ["", "a,v\n", "a,n,v\n", "a,n,x,at,v,w\n"];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn rows_that_load_export_as_the_same_pairs(
            draw: u8,
            header in prop::sample::select(HEADERS.as_slice()),
            text in "([a1\"\\\\,:{}\\[\\]\t\n\r.\u{e9}-]|null|\"a\":|\"v\":|2013-07-04(T09:00:00Z)?|1e309|[0-9]){0,24}",
        ) {
            loader(&[&[draw], header.as_bytes(), text.as_bytes()].concat());
        }

        #[test]
        fn keys_that_parse_print_as_the_same_text(
            draw: u8,
            text in "([a1\"\\\\,.-]|null|\\[|\\]|2013-07-04(T09:00:00Z)?|1e309|x[0-9a-f]{2}){0,12}",
        ) {
            keys(&[&[draw], text.as_bytes()].concat());
        }
    }
}

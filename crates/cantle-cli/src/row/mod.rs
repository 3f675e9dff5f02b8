//! Rows of text files as pairs of a key and a value, and back.
//!
//! A reader yields one [`Row`] for each record with the number of the line where it starts. A row
//! that cannot be understood is reported in its place and reading goes on after it; only an error
//! of the file itself ends it. A line that [`write`] makes of a pair reads back as the same pair;
//! other pairs are refused.

mod array;
pub(crate) mod csv;
mod lines;
pub(crate) mod members;
pub(crate) mod ndjson;
mod records;
pub(crate) mod table;
pub(crate) mod tsv;
pub(crate) mod write;

use crate::csvtext;
use crate::failure::Outcome;
use crate::output::counted;
use crate::schema::ValueForm;

/// The most that one row may hold, in bytes: a key and a value at the store's limits, in text. A
/// quote that is never closed ends here instead of filling the memory.
pub(crate) const ROW_BYTES_MAX: u64 = (1 << 30) + (1 << 20);

/// One record of a file.
pub(crate) struct Row {
    /// The line where it starts, from 1.
    pub(crate) line: u64,
    /// Its key and value, or the reason why it has none.
    pub(crate) pair: Result<(Vec<u8>, Vec<u8>), String>,
}

/// Reads rows one by one.
pub(crate) trait Rows {
    /// The next row; none at the end. An error is the file's own and ends it.
    fn next_row(&mut self) -> Outcome<Option<Row>>;
}

/// `bytes` as a value of this form, in the one way that it is kept. An error is the reason why they
/// are none.
pub(crate) fn value_of_bytes(form: &ValueForm, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    match form {
        ValueForm::Raw => Ok(bytes),
        ValueForm::Csv(columns) => {
            let fields = csvtext::split(&bytes)?;
            if fields.len() != columns.len() {
                return Err(format!(
                    "the value has {} ({}), not {}",
                    counted(columns.len() as u64, "column", "columns"),
                    columns.join(", "),
                    fields.len()
                ));
            }
            Ok(csvtext::record(&fields))
        }
        ValueForm::Json => {
            if let Some(value) = members::parse_other(&bytes) {
                return Ok(members::on_one_line(value.to_owned()).into_bytes());
            }
            let members = members::parse(&bytes).map_err(|what| match bytes.trim_ascii_start() {
                [b'{', ..] => what,
                _ => what.replacen("a JSON object", "JSON", 1),
            })?;
            let object = members::object(members.iter().map(|(name, json)| (name.as_str(), json.get())));
            Ok(members::on_one_line(object).into_bytes())
        }
    }
}

#[cfg(test)]
mod tests;

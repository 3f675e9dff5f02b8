//! `cantle scan`: pairs in key order.

use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::keyfmt::KeyCodec;
use crate::output::Output;
use crate::row::write;
use crate::store::{Access, KeyArgs, StoreArgs};
use clap::{Args, ValueEnum};
use std::ops::Bound;

/// Print pairs in key order, all of one point in time
///
/// A pair of columns is printed as a CSV row, any other as the key, a tab and the value: JSON
/// as it is, raw bytes with \\, \t, \n, \r and \xNN. A key that does not fit the keyspace's columns
/// is printed in hexadecimal after 0x.
///
/// --json prints one object on each line. Its members are the columns of the key and of the value, or those of a JSON
/// object; other JSON is the member value. A raw key and a raw value are key and value, strings, or {"hex":"…"} where
/// the bytes are no UTF-8.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Scan {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    range: RangeArgs,
    /// The most pairs to print
    #[arg(long, value_name = "PAIRS")]
    limit: Option<usize>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Leave values out
    #[arg(long)]
    keys_only: bool,
    /// The form in which pairs are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    #[command(flatten)]
    keys: KeyArgs,
}

const EXAMPLES: &str = "\
Examples:
  cantle scan flights --prefix UA,EWR --from UA,EWR,2013-07-04T10:00:00Z --to UA,EWR,2013-07-04T16:00:00Z
  cantle scan flights --prefix DL,LGA --reverse --limit 10
  cantle scan store --from a --to b --keys-only --format hex";

/// The range of keys.
#[derive(Debug, Args)]
pub(super) struct RangeArgs {
    /// Only keys that begin with these columns, or bytes
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    prefix: Option<String>,
    /// Only keys from this one on; the first columns suffice
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<String>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<String>,
}

/// The start and the end of a range of keys.
pub(super) type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

impl RangeArgs {
    /// The keys that satisfy all that was given.
    pub(super) fn bounds(&self, codec: &KeyCodec) -> Outcome<KeyBounds> {
        if let (Some(from), Some(to)) = (&self.from, &self.to)
            && codec.parse_start(from.as_bytes()).map_err(Failure::Usage)?
                > codec.parse_start(to.as_bytes()).map_err(Failure::Usage)?
        {
            return Err(Failure::Usage(format!(
                "--from {from} lies after --to {to}, so no key is between them: exchange the two (scan --reverse \
                 prints the last key first)"
            )));
        }
        let mut start = Vec::new();
        let mut end = None;
        if let Some(prefix) = &self.prefix {
            (start, end) = codec.parse_prefix(prefix.as_bytes()).map_err(Failure::Usage)?;
        }
        if let Some(from) = &self.from {
            start = start.max(codec.parse_start(from.as_bytes()).map_err(Failure::Usage)?);
        }
        if let Some(to) = &self.to {
            let to = codec.parse_start(to.as_bytes()).map_err(Failure::Usage)?;
            end = Some(end.map_or(to.clone(), |end| end.min(to)));
        }
        Ok((Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// CSV rows, or key, tab, value
    Text,
    /// A JSON object for each pair
    Json,
    /// Key, tab, value in hexadecimal
    Hex,
}

impl Scan {
    pub(crate) fn run(self) -> Outcome {
        let opened = self.store.open(Access::Read)?;
        let (codec, schema) = opened.codec(&self.keys)?;
        let range = opened.keyspace.range(self.range.bounds(&codec)?);
        let limit = self.limit.unwrap_or(usize::MAX);
        let mut output = Output::new();
        let format = if self.json { Format::Json } else { self.format };
        let mut print = |pair: cantle::Result<(cantle::Key, cantle::Value)>| {
            let (key, value) = pair?;
            output.line(match (format, self.keys_only) {
                (Format::Text, true) => codec.show(&key).into_bytes(),
                (Format::Text, false) => write::text_line(&codec, &schema.value, &key, &value),
                (Format::Json, true) => write::json_key_line(&codec, &key),
                (Format::Json, false) => write::json_line(&codec, &schema.value, &key, &value),
                (Format::Hex, true) => escape::to_hex(&key).into_bytes(),
                (Format::Hex, false) => write::hex_line(&key, &value),
            })
        };
        let ended = if self.reverse {
            range.rev().take(limit).try_for_each(&mut print)
        } else {
            range.take(limit).try_for_each(&mut print)
        };
        // Pairs before an error are shown.
        let written = output.finish();
        ended.and(written)
    }
}

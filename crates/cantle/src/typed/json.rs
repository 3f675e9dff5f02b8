//! JSON of keyspaces' metadata, read and written without a dependency that every build would have.
//!
//! Invariants: any bytes are read or refused, and nothing panics; documents nest at most 32 levels.
//! Documents are written compactly, and the members of objects keep their order.

use std::fmt;

/// Documents that nest deeper are refused, as reading recurses once for each level.
const NESTING_MAX: usize = 32;

/// A JSON document.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    /// `null`, `true`, `false`, or a number, as it is written.
    Plain(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// The document, if these bytes are one.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader { rest: std::str::from_utf8(bytes).ok()? };
        let document = reader.value(NESTING_MAX)?;
        reader.skip_space();
        reader.rest.is_empty().then_some(document)
    }

    /// A member of an object.
    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.iter().find(|member| member.0 == name).map(|member| &member.1),
            _ => None,
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    /// Takes `token` if it comes next. Returns true if it did.
    fn takes(&mut self, token: char) -> bool {
        self.skip_space();
        let after = self.rest.strip_prefix(token);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn value(&mut self, nesting_left: usize) -> Option<Json> {
        if self.takes('"') {
            return self.text().map(Json::Text);
        }
        if self.takes('[') {
            let nesting_left = nesting_left.checked_sub(1)?;
            let items = self.items(']', |reader| reader.value(nesting_left))?;
            return Some(Json::List(items));
        }
        if self.takes('{') {
            let nesting_left = nesting_left.checked_sub(1)?;
            let members = self.items('}', |reader| {
                let name = if reader.takes('"') { reader.text()? } else { return None };
                if reader.takes(':') { Some((name, reader.value(nesting_left)?)) } else { None }
            })?;
            return Some(Json::Object(members));
        }
        let end = self
            .rest
            .find(|char: char| !char.is_ascii_alphanumeric() && !matches!(char, '+' | '-' | '.'))
            .unwrap_or(self.rest.len());
        let (word, after) = self.rest.split_at(end);
        self.rest = after;
        (matches!(word, "null" | "true" | "false") || is_number(word)).then(|| Json::Plain(word.to_owned()))
    }

    fn items<T>(&mut self, end: char, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        if self.takes(end) {
            return Some(items);
        }
        loop {
            items.push(item(self)?);
            if self.takes(end) {
                return Some(items);
            }
            if !self.takes(',') {
                return None;
            }
        }
    }

    /// The rest of a text, after its first quote.
    fn text(&mut self) -> Option<String> {
        let mut text = String::new();
        loop {
            let mut chars = self.rest.chars();
            let char = chars.next()?;
            self.rest = chars.as_str();
            match char {
                '"' => return Some(text),
                '\\' => text.push(self.escaped()?),
                char if char < ' ' => return None,
                char => text.push(char),
            }
        }
    }

    /// The character of an escape sequence, after its backslash.
    fn escaped(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let char = chars.next()?;
        self.rest = chars.as_str();
        Some(match char {
            '"' | '\\' | '/' => char,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let unit = self.unit()?;
                if !(0xd800..0xdc00).contains(&unit) {
                    return char::from_u32(unit);
                }
                self.rest = self.rest.strip_prefix("\\u")?;
                let low = self.unit()?.checked_sub(0xdc00).filter(|&low| low < 0x400)?;
                return char::from_u32(0x1_0000 + ((unit - 0xd800) << 10) + low);
            }
            _ => return None,
        })
    }

    /// Four hexadecimal digits.
    fn unit(&mut self) -> Option<u32> {
        let (digits, after) = self.rest.split_at_checked(4)?;
        self.rest = after;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        u32::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    }
}

/// True for a word that is a number by JSON's grammar.
fn is_number(word: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let word = word.strip_prefix('-').unwrap_or(word);
    let (word, exponent) =
        word.split_once(['e', 'E']).map_or((word, None), |(word, rest)| (word, Some(rest)));
    let (whole, fraction) = word.split_once('.').map_or((word, None), |(whole, rest)| (whole, Some(rest)));
    digits(whole)
        && (whole.len() == 1 || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(word) => f.write_str(word),
            Self::Text(text) => write_text(f, text),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Object(members) => {
                f.write_str("{")?;
                for (index, (name, value)) in members.iter().enumerate() {
                    f.write_str(if index > 0 { "," } else { "" })?;
                    write_text(f, name)?;
                    write!(f, ":{value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for char in text.chars() {
        match char {
            '"' | '\\' => write!(f, "\\{char}")?,
            char if char < ' ' => write!(f, "\\u{:04x}", char as u32)?,
            char => write!(f, "{char}")?,
        }
    }
    f.write_str("\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Texts that are nearly JSON.
    fn nearly() -> impl Strategy<Value = String> {
        let token = prop::sample::select(vec![
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"",
            "\"a\"",
            "\\",
            "\\u",
            "d83d",
            "\\ud83d\\ude00",
            "\"\\u00e9\"",
            "0",
            "-",
            "1",
            ".",
            "e",
            "+",
            "E9",
            "null",
            "true",
            "false",
            " ",
            "\n",
            "é",
            "\u{1}",
            "\"k\":",
            "[]",
            "{}",
            "NaN",
        ]);
        prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn json_is_read_as_by_serde(text in nearly()) {
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            let ours = Json::parse(text.as_bytes());
            // Theirs refuses numbers beyond the largest float.
            let too_large = theirs.as_ref().is_err_and(|error| error.to_string().contains("number out of range"));
            prop_assert!(too_large || ours.is_some() == theirs.is_ok(), "{text:?} {ours:?} {theirs:?}");
            if let (Some(ours), Ok(theirs)) = (ours, theirs) {
                let again: serde_json::Value = serde_json::from_str(&ours.to_string()).unwrap();
                prop_assert_eq!(again, theirs);
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = Json::parse(&bytes);
        }

        #[test]
        fn texts_come_back(text in any::<String>()) {
            let written = Json::text(&text).to_string();
            prop_assert_eq!(Json::parse(written.as_bytes()), Some(Json::Text(text)));
        }
    }

    #[test]
    fn a_document_that_nests_without_end_is_refused() {
        for levels in [NESTING_MAX, NESTING_MAX + 1, 60_000] {
            let text = ["[".repeat(levels), "]".repeat(levels)].concat();
            assert_eq!(Json::parse(text.as_bytes()).is_some(), levels == NESTING_MAX);
        }
    }
}

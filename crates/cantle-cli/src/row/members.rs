//! JSON objects as lists of members whose values stay as they were written.
//!
//! Numbers in particular are never converted: what is loaded is exported digit by digit.

use crate::keyfmt::json_string;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The members of an object in their order.
pub(crate) type Members<'a> = Vec<(String, &'a RawValue)>;

struct Object<'a>(Members<'a>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Object<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Object<'de>, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// The members of the object that `json` is.
pub(crate) fn parse(json: &[u8]) -> Result<Members<'_>, String> {
    let Object(members) =
        serde_json::from_slice(json).map_err(|error| format!("not a JSON object: {error}"))?;
    Ok(members)
}

/// The JSON value that `json` is, if that is no object, without blanks around it.
pub(crate) fn parse_other(json: &[u8]) -> Option<&str> {
    if json.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let value: &RawValue = serde_json::from_slice(json).ok()?;
    Some(value.get())
}

/// The names of members, for messages.
pub(crate) fn names(members: &Members<'_>) -> String {
    members.iter().map(|member| member.0.as_str()).collect::<Vec<_>>().join(", ")
}

/// The value of the member `name`; an error if there are several.
pub(crate) fn only<'a>(members: &Members<'a>, name: &str) -> Result<Option<&'a RawValue>, String> {
    let mut found = members.iter().filter(|member| member.0 == name);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(format!("member {name:?} is there twice")),
        (member, None) => Ok(member.map(|member| member.1)),
    }
}

/// `json` without the line ends and the indentation that follow them: no string has a line end in
/// JSON.
pub(crate) fn on_one_line(json: String) -> String {
    if !json.contains(['\n', '\r']) {
        return json;
    }
    json.split(['\n', '\r']).map(|line| line.trim_start_matches([' ', '\t'])).collect()
}

/// The object of these members, their values written as they are.
pub(crate) fn object<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut object = String::from("{");
    for (name, json) in members {
        if object.len() > 1 {
            object.push(',');
        }
        object.push_str(&json_string(name));
        object.push(':');
        object.push_str(json);
    }
    object.push('}');
    object
}

//! UUIDs of the crate `uuid` as parts of keys.

use super::builder::Builder;
use super::error::PartError;
use super::kind;
use super::part::Part;
use super::value::{FromKey, InfallibleKey, ToKey};
use uuid::Uuid;

impl ToKey for Uuid {
    type Kind = kind::Uuid;
    fn append_to(&self, key: Builder) -> Result<Builder, PartError> {
        Ok(key.uuid(self.into_bytes()))
    }
}
impl InfallibleKey for Uuid {}
impl FromKey for Uuid {
    fn from_part(part: Part) -> Result<Self, PartError> {
        match part {
            Part::Uuid(bytes) => Ok(Self::from_bytes(bytes)),
            other => Err(PartError::expected("a UUID", &other)),
        }
    }
}

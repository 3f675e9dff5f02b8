//! List of the layouts of this build. No other file outside of a layout's own folder names a
//! layout.

use crate::layout::factory::LayoutFactory;
use crate::layout::kind::LayoutKind;
use crate::manifest::LayoutState;
use crate::types::error::{Error, Result};

static FACTORIES: &[&dyn LayoutFactory] = &[
    &crate::chunk::factory::Chunk,
    &crate::flsm::factory::Flsm,
    &crate::forest::factory::Forest,
    #[cfg(feature = "labs")]
    &crate::tiny::factory::Tiny,
];

/// Factory of this layout; an `InvalidArgument` if the build does not have the layout.
pub fn factory(kind: LayoutKind) -> Result<&'static dyn LayoutFactory> {
    let found = FACTORIES.iter().copied().find(|factory| factory.kind() == kind);
    found.ok_or_else(|| Error::InvalidArgument(format!("layout {kind} is not in this build")))
}

/// Factory of the layout with this number in the manifest.
pub fn factory_of(code: u8) -> Option<&'static dyn LayoutFactory> {
    FACTORIES.iter().copied().find(|factory| factory.kind().code() == code)
}

/// The empty state of the layout with this number in the manifest.
pub fn new_state(code: u8) -> Option<Box<dyn LayoutState>> {
    factory_of(code).map(LayoutFactory::state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_layout_has_a_factory_and_a_number_of_its_own() {
        let codes: BTreeSet<u8> = LayoutKind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), LayoutKind::ALL.len());
        for &kind in LayoutKind::ALL {
            assert_eq!(factory(kind).unwrap().kind(), kind);
            assert_eq!(factory_of(kind.code()).unwrap().kind(), kind);
        }
        assert!(new_state(0).is_none());
    }
}

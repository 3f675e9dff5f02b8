//! Ranges of typed keys.

use crate::key::kind::{Kind, LeadingParts};
use crate::key::{self, ToKey};
use crate::types::error::Result;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// Bounds of keys in bytes: a range for [`Keyspace::range`](crate::Keyspace::range) and its like.
pub type ByteBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

mod sealed {
    pub trait Sealed {}
}

/// A range of keys of the kind `K`: any of std's ranges over such keys or their leading parts,
/// `..`, or a pair of [`Bound`]s.
///
/// Leading parts stand for all keys that begin with them: `("UA",)..=("US",)` includes all keys of
/// both, and `("UA",)..("US",)` none of `US`. Sealed.
pub trait TypedBounds<K>: sealed::Sealed {
    /// The bounds in bytes. Fails as [`key::try_encode`] does.
    #[doc(hidden)]
    fn to_bytes(&self) -> Result<ByteBounds>;
}

impl sealed::Sealed for RangeFull {}
impl<K: Kind> TypedBounds<K> for RangeFull {
    fn to_bytes(&self) -> Result<ByteBounds> {
        Ok((Bound::Unbounded, Bound::Unbounded))
    }
}

fn start<K, Q: ToKey<Kind: LeadingParts<K>>>(bound: Bound<&Q>) -> Result<Bound<Vec<u8>>> {
    Ok(match bound {
        Bound::Included(key) => Bound::Included(key::try_encode(key)?),
        Bound::Excluded(key) if Q::Kind::WHOLE => Bound::Excluded(key::try_encode(key)?),
        Bound::Excluded(parts) => Bound::Included(key::try_range_of(parts)?.end),
        Bound::Unbounded => Bound::Unbounded,
    })
}

fn end<K, Q: ToKey<Kind: LeadingParts<K>>>(bound: Bound<&Q>) -> Result<Bound<Vec<u8>>> {
    Ok(match bound {
        Bound::Included(key) if Q::Kind::WHOLE => Bound::Included(key::try_encode(key)?),
        Bound::Included(parts) => Bound::Excluded(key::try_range_of(parts)?.end),
        Bound::Excluded(key) => Bound::Excluded(key::try_encode(key)?),
        Bound::Unbounded => Bound::Unbounded,
    })
}

macro_rules! typed_bounds {
    ($($type:ty, $self:ident => $start:expr, $end:expr;)+) => {$(
        impl<Q> sealed::Sealed for $type {}
        impl<K: Kind, Q: ToKey<Kind: LeadingParts<K>>> TypedBounds<K> for $type {
            fn to_bytes(&$self) -> Result<ByteBounds> {
                Ok((start::<K, Q>($start)?, end::<K, Q>($end)?))
            }
        }
    )+};
}
typed_bounds! {
    Range<Q>, self => Bound::Included(&self.start), Bound::Excluded(&self.end);
    RangeFrom<Q>, self => Bound::Included(&self.start), Bound::Unbounded;
    RangeTo<Q>, self => Bound::Unbounded, Bound::Excluded(&self.end);
    RangeInclusive<Q>, self => Bound::Included(self.start()), Bound::Included(self.end());
    RangeToInclusive<Q>, self => Bound::Unbounded, Bound::Included(&self.end);
    (Bound<Q>, Bound<Q>), self => self.0.as_ref(), self.1.as_ref();
}

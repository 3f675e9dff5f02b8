//! In a file of its own, because models of other modules include the tested file without its tests.

use super::claims::Claims;

#[test]
fn what_is_nobodys_is_unclaimed_until_the_last_lets_go() {
    let claims = Claims::default();
    let mut sum = claims.claim(60, 100);
    sum += claims.claim(40, 100);
    assert_eq!((sum, claims.unclaimed_bytes()), (0, 0));
    // One of the shares is split.
    sum += claims.claim(25, 100) + claims.claim(36, 100) + claims.unclaim(60);
    assert_eq!((sum, claims.unclaimed_bytes()), (-1, 0), "shares are rounded up");
    sum += claims.unclaim(40) + claims.unclaim(36);
    assert_eq!((sum, claims.unclaimed_bytes()), (75, 75));
    sum += claims.unclaim(25) + claims.end();
    assert_eq!((sum, claims.unclaimed_bytes()), (0, 0));
}

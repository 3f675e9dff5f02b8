//! The admission of merges. A file of its own, because a model under shuttle includes the module.

use super::busy::{Claim, Claims};

#[test]
fn merges_of_other_groups_are_admitted() {
    let claims = Claims::default();
    let claim = |from: &[u64], into: &[u64], logs| Claim { from: from.to_vec(), into: into.to_vec(), logs };
    let admits = |from: &[u64], into: &[u64], logs| claims.lock().admits(&claim(from, into, logs));
    let first = claims.claim(claims.lock(), claim(&[1], &[10, 11], false));
    assert!(admits(&[2], &[12], false));
    assert!(!admits(&[1], &[12], false), "it takes from the same group");
    assert!(!admits(&[2], &[11], false), "it puts into the same group");
    assert!(admits(&[10], &[20], false), "it takes what is there from a group that gets more");
    assert!(admits(&[], &[1, 2, 3], true), "logs come above what is taken");
    let logs = claims.claim(claims.lock(), claim(&[], &[1, 2, 3], true));
    assert!(!admits(&[], &[], true), "logs are merged in their order");
    let is_free = |id| claims.lock().is_free(id);
    assert_eq!([1, 3, 10, 4].map(is_free), [false, false, false, true]);
    drop(first);
    assert!(admits(&[1], &[10], false) && !is_free(1) && is_free(10));
    drop(logs);
    assert!(admits(&[1], &[10], true) && is_free(1));
    assert_eq!(claims.lock().merges(), 0);
    claims.wait_for_all();
}

//! The edits that fit: chunks tile those that they replace, and files count within their chunk.

use crate::chunk::geometry::{Misfit, Tile, check_replacement, check_starts};
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;

fn span(start: &'static str, end: &'static str) -> Span {
    // "-" stands for no key.
    let key = |name: &'static str| (name != "-").then(|| Bytes::from_static(name.as_bytes()));
    Span { start: key(start), end: key(end) }
}

fn checked(removed: &[Span], added: &[(Span, Vec<(u64, Span)>)]) -> std::result::Result<(), Misfit> {
    let removed: Vec<&Span> = removed.iter().collect();
    let mut tiles = Vec::new();
    for (span, files) in added {
        tiles.push(Tile { span, files: files.iter().map(|(id, span)| (*id, span)).collect() });
    }
    check_replacement(&KeyOrder::Bytewise, &removed, &tiles)
}

#[test]
fn what_tiles_the_replaced_chunks_fits_and_nothing_else() {
    let alone = |spans: &[(&'static str, &'static str)]| -> Vec<(Span, Vec<(u64, Span)>)> {
        spans.iter().map(|(start, end)| (span(start, end), Vec::new())).collect()
    };
    let whole = [span("b", "k")];
    for fit in [&[("b", "k")][..], &[("b", "c"), ("c", "k")], &[("b", "c"), ("c", "d"), ("d", "k")]] {
        assert_eq!(checked(&whole, &alone(fit)), Ok(()), "{fit:?}");
    }
    assert_eq!(checked(&[span("-", "-")], &alone(&[("-", "a"), ("a", "-")])), Ok(()));
    assert_eq!(checked(&[span("-", "b"), span("b", "-")], &alone(&[("-", "-")])), Ok(()));
    assert_eq!(checked(&[span("-", "b"), span("b", "d")], &alone(&[("-", "a"), ("a", "d")])), Ok(()));
    for unfit in [
        &[][..],
        &[("b", "j")],
        &[("c", "k")],
        &[("-", "k")],
        &[("b", "-")],
        &[("b", "c"), ("d", "k")],
        &[("b", "d"), ("c", "k")],
        // At a key of another chunk, before or after it, and at its own ends.
        &[("b", "z"), ("z", "k")],
        &[("b", "a"), ("a", "k")],
        &[("b", "k"), ("k", "k")],
        &[("b", "b"), ("b", "k")],
        &[("b", "d"), ("d", "c"), ("c", "k")],
        &[("b", "c"), ("c", "c"), ("c", "k")],
        &[("b", "-"), ("-", "k")],
    ] {
        assert!(checked(&whole, &alone(unfit)).is_err(), "{unfit:?}");
    }
    assert!(checked(&[], &alone(&[("-", "-")])).is_err());
    assert!(
        checked(&[span("-", "-")], &alone(&[("-", ""), ("", "-")])).is_err(),
        "an empty key is no boundary"
    );
    assert!(checked(&[span("-", "b"), span("c", "-")], &alone(&[("-", "-")])).is_err(), "no neighbours");
    assert!(checked(&[span("b", "-"), span("-", "b")], &alone(&[("b", "b")])).is_err(), "no neighbours");
}

#[test]
fn a_file_counts_within_its_chunk_and_once_for_a_key() {
    let with = |files: &[(u64, &'static str, &'static str)]| {
        let files = files.iter().map(|(id, start, end)| (*id, span(start, end))).collect();
        checked(&[span("b", "k")], &[(span("b", "k"), files)])
    };
    assert_eq!(with(&[(1, "b", "k"), (2, "b", "k"), (3, "c", "d")]), Ok(()));
    assert_eq!(with(&[(1, "b", "d"), (1, "d", "k")]), Ok(()), "as after a merge");
    for files in [
        &[(1, "a", "k")][..],
        &[(1, "-", "k")],
        &[(1, "b", "l")],
        &[(1, "b", "-")],
        &[(1, "d", "c")],
        &[(1, "c", "c")],
        &[(1, "", "c")],
        &[(1, "b", "e"), (2, "b", "k"), (1, "d", "k")],
    ] {
        assert!(with(files).is_err(), "{files:?}");
    }
}

#[test]
fn what_an_opening_asks_of_the_chunks() {
    let check = |starts: &[&'static str]| {
        let starts: Vec<Option<Bytes>> = starts.iter().map(|start| span(start, "-").start).collect();
        check_starts(&KeyOrder::Bytewise, starts.iter().map(Option::as_ref))
    };
    assert!(
        [&["-"][..], &["-", "a"], &["-", "a", "aa", "b"]].into_iter().all(|starts| check(starts).is_ok())
    );
    for starts in
        [&[][..], &["a"], &["-", "-"], &["-", ""], &["-", "a", "a"], &["-", "b", "a"], &["-", "a", "-"]]
    {
        assert!(check(starts).is_err(), "{starts:?}");
    }
}

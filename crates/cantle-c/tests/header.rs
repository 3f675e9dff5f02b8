//! The header is what the sources say.

use std::path::Path;

/// Writes `include/cantle.h` from the sources and compares. After a change of the interface:
/// `CANTLE_RENEW_HEADER=1 cargo test -p cantle-c --test header`.
#[test]
fn the_header_is_that_of_the_sources() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::generate_with_config(crate_dir, config).unwrap();
    let mut written = Vec::new();
    bindings.write(&mut written);
    let written = String::from_utf8(written).unwrap();
    let path = crate_dir.join("include/cantle.h");
    if std::env::var_os("CANTLE_RENEW_HEADER").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = there.lines().zip(written.lines()).position(|(there, written)| there != written);
    assert!(
        there == written,
        "include/cantle.h is not what the sources say{}: CANTLE_RENEW_HEADER=1 cargo test -p cantle-c --test header",
        differs.map(|line| format!(" from line {} on", line + 1)).unwrap_or_default()
    );
}

/// Ownership, errors and threads of every function are told, in its own comment.
#[test]
fn every_function_says_who_owns_what_how_it_fails_and_who_may_call_it() {
    let header = include_str!("../include/cantle.h");
    let mut functions = 0;
    for (at, _) in header.match_indices("\n") {
        let line = header[at + 1..].lines().next().unwrap_or_default();
        // Declarations begin at the margin with their type; comments and the members of types do not.
        let declares =
            line.starts_with(|first: char| first.is_ascii_alphabetic()) && !line.starts_with("typedef");
        let name = line.split('(').next().and_then(|before| before.split([' ', '*']).next_back());
        let Some(name) = name.filter(|name| declares && name.starts_with("cantle_")) else { continue };
        functions += 1;
        let before = header[..at].trim_end();
        assert!(before.ends_with("*/"), "{name} has no comment");
        let comment = &before[before.rfind("/**").unwrap_or(0)..];
        for word in ["Ownership:", "Errors:", "Threads:"] {
            assert!(comment.contains(word), "the comment of {name} says nothing of {word}");
        }
    }
    assert!(functions > 100, "only {functions} functions were found");
}

//! Commands on a store that a program has open with the option `monitor`: this one.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "support/place.rs"]
mod place;

use cantle::{Db, Options};
use place::Place;
use std::fs;

fn open(place: &Place, monitor: bool) -> Db {
    Options::new().memory_budget(16 << 20).monitor(monitor).open(place.path("flights")).unwrap()
}

#[test]
fn a_store_that_is_open_elsewhere_is_seen_and_backed_up() {
    let place = Place::new();
    place.flights();
    let db = open(&place, true);
    for key in 0..3_000u32 {
        db.put(key.to_be_bytes(), [7; 100]).unwrap();
    }
    let stats = place.run(&["stats", "flights", "--json"]).json();
    assert_eq!(stats["epoch"].as_u64(), Some(db.stats().epoch), "by the program, not by another opening");
    assert!(stats["keyspaces"][0]["writes"].as_u64() >= Some(3_000));
    let inspected = place.run(&["inspect", "flights"]).text();
    assert!(inspected.contains("key      carrier:text"), "{inspected}");
    assert!(!place.run(&["inspect", "flights", "--json"]).json().as_array().unwrap().is_empty());
    let looks = place.run(&["top", "flights", "--interval", "0.1", "--count", "2"]).text();
    assert!(looks.contains("writes/s") && looks.contains("from key"), "{looks}");
    assert!(looks.contains("block cache"), "the second look has rates: {looks}");
    let json = place.run(&["top", "flights", "--interval", "0.1", "--count", "2", "--json"]).lines();
    assert_eq!(json.len(), 2);
    place.run(&["backup", "flights", "copy"]).text();
    assert_eq!(place.run(&["count", "copy"]).text().trim(), "3006");
    assert!(!place.path("copy").join("MONITOR").exists());
    place.run(&["backup", "flights", "copy"]).fails(3, "exists already");
    place.run(&["inspect", "flights", "--keyspace", "none"]).fails(3, "there is no keyspace \"none\"");
    // Every other command says so.
    let process = format!("is in use by process {}", std::process::id());
    for command in [&["scan", "flights"][..], &["verify", "flights"], &["get", "flights", "x"]] {
        place.run(command).fails(3, &process);
    }
    place.run(&["count", "flights"]).fails(3, "`top` and `backup` work, and no other command");
    drop(db);
    place.run(&["top", "flights"]).fails(3, "no program that can be asked has flights open");
    assert!(place.run(&["stats", "flights"]).text().contains("store"));
}

#[test]
fn without_a_socket_a_store_that_is_open_is_in_use() {
    let place = Place::new();
    place.flights();
    let db = open(&place, false);
    for command in [&["stats", "flights"][..], &["inspect", "flights"], &["backup", "flights", "copy"]] {
        place.run(command).fails(3, "is in use by process");
    }
    drop(db);
}

#[test]
fn the_map_is_a_page_by_itself() {
    let place = Place::new();
    place.flights();
    place.run(&["inspect", "flights", "--html", "map.html"]).text();
    let page = fs::read_to_string(place.path("map.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("keyspace default of flights"));
    assert!(page.contains("Key: carrier:text"), "{}", &page[..400]);
    place
        .run(&["inspect", "flights", "--html", "no/such/map.html"])
        .fails(3, "cannot write no/such/map.html");
    place.run(&["inspect", "flights", "--html", "x", "--json"]).fails(2, "--json");
}

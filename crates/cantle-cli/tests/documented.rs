//! The commands of README, of the page about keys and of each subcommand's help run, on the real data, and print what the pages
//! show.
#![cfg(feature = "zstd")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "support/place.rs"]
mod place;

use place::Place;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

/// Parts of commands that are not run here, and why.
const LEFT_OUT: [(&str, &str); 9] = [
    ("cargo install", "installs"),
    ("--leveldb old", "tests/import.rs has a store of LevelDB"),
    ("--leveldb damaged", "tests/import.rs has a damaged store of LevelDB"),
    ("ldb ", "needs RocksDB's tool; tests/import.rs runs it where it is"),
    ("cantle top ", "tests/monitored.rs has a program with an open store"),
    ("| man -l", "needs a reader of manual pages"),
    ("cantle bench", "takes minutes, but for --smoke"),
    ("cantle tour", "tests/bench_tour.rs runs it"),
    ("/var/lib/node_exporter", "a directory of another program"),
];

/// Commands that make a store where there is none, and the store.
const MAKES: [(&str, &str); 5] = [
    ("repair flights flights.repaired", "flights.repaired"),
    ("repair flights flights.new", "flights.new"),
    ("backup flights flights-2013", "flights-2013"),
    ("backup flights flights.backup", "flights.backup"),
    ("import --rocksdb copy", "copy"),
];

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Makes `cantle` the program in the place's `bin`.
fn link_program(place: &Place) {
    let bin = place.path("bin");
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_cantle"), bin.join("cantle")).unwrap();
}

/// A place with the files that the commands name, in which `cantle` is the program.
fn prepared() -> Place {
    let place = Place::new();
    link_program(&place);
    symlink(repository().join("examples"), place.path("examples")).unwrap();
    symlink(repository().join("examples/data/flights.csv.gz"), place.path("flights.csv.gz")).unwrap();
    place.file("flights.csv", "carrier,flight,dest,distance\nUA,1545,IAH,1400\n");
    place.file("routes.csv", "carrier,origin,flight,dest,distance\nDL,LGA,7,ATL,760\n");
    place.file("prices.csv", "day;item;price\n2024-11-27;bread;3,20\n");
    place.file("people.tsv", "id\tname\n7\tAda\n");
    place.file(
        "events.ndjson.zst",
        zstd::encode_all(&b"{\"user\":\"ada\",\"at\":\"2024-11-27T10:00:00Z\",\"did\":\"log in\"}\n"[..], 3)
            .unwrap(),
    );
    place.file("words.tsv", "hello\tgreeting\n");
    place.file("picture.png", [0x89, b'P', b'N', b'G']);
    place
}

fn shell(place: &Place, line: &str) -> Output {
    let path = format!("{}:{}", place.path("bin").display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(place.path("")).env("PATH", path).env("HOME", place.path("home"));
    command.output().unwrap()
}

/// Runs a command unless it is one that is left out; its output and what it says to people.
fn run(place: &Place, line: &str) -> Option<String> {
    if !line.contains("--smoke") && LEFT_OUT.iter().any(|(part, _)| line.contains(part)) {
        return None;
    }
    // Each of them is the first to make its store.
    for (command, made) in MAKES {
        if line.contains(command) {
            let _ = fs::remove_dir_all(place.path(made));
        }
    }
    let output = shell(place, line);
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{line}: {}\n{says}", output.status);
    Some(String::from_utf8_lossy(&output.stdout).into_owned() + &says)
}

/// The lines of a fenced block.
fn blocks<'a>(page: &'a str, kind: &str) -> Vec<Vec<&'a str>> {
    let parts = page.split("\n```").collect::<Vec<_>>();
    let named = parts.iter().filter_map(|part| part.strip_prefix(kind)?.strip_prefix('\n'));
    named.map(|block| block.lines().collect()).collect()
}

/// Times and speeds differ from run to run.
fn timeless(line: &str) -> &str {
    line.split(", in ").next().unwrap_or(line)
}

/// Runs the commands of a page's `console` blocks in order, and compares what they print.
fn check_session(place: &Place, page: &str) {
    let session = blocks(page, "console").concat();
    assert!(session.iter().filter(|line| line.starts_with("$ ")).count() > 4, "the page has no session");
    let mut shown: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in session {
        match line.strip_prefix("$ ") {
            Some(command) => shown.push((command, Vec::new())),
            None => shown.last_mut().unwrap().1.push(line),
        }
    }
    for (command, expected) in shown {
        let Some(printed) = run(place, command) else { continue };
        // A slow machine reports its progress.
        let printed = printed.lines().filter(|line| !line.starts_with("loading: "));
        let printed: Vec<&str> = printed.map(timeless).collect();
        assert_eq!(printed, expected.into_iter().map(timeless).collect::<Vec<_>>(), "{command}");
    }
}

#[test]
fn the_shell_blocks_about_keys_run_and_print_what_the_page_shows() {
    let page = fs::read_to_string(repository().join("docs/choosing-keys.md")).unwrap();
    let place = Place::new();
    link_program(&place);
    let scripts = blocks(&page, "sh");
    assert_eq!(scripts.len(), 1, "one block makes the file");
    for script in scripts {
        assert_eq!(run(&place, &script.join("\n")).as_deref(), Some(""), "{script:?}");
    }
    check_session(&place, &page);
}

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    let page = fs::read_to_string(repository().join("README.md")).unwrap();
    let place = prepared();
    check_session(&place, &page);
    let more: Vec<&str> = blocks(&page, "sh").concat();
    let more = more.iter().filter(|line| line.starts_with("cantle "));
    let ran = more.filter_map(|line| run(&place, line)).filter(|printed| !printed.is_empty()).count();
    assert!(ran > 4, "{ran}");
}

#[test]
fn the_examples_of_each_help_run() {
    let place = prepared();
    let prepare = [
        "cantle load flights --csv flights.csv.gz --key carrier,origin,time_hour:time,flight:int",
        "cantle load flights --tsv words.tsv --keyspace events",
        "cantle load store --tsv words.tsv --keyspace english",
        r"cantle put store 'a\x00b' value",
        "mkdir -p home/.local/share/bash-completion/completions home/.config/fish/completions home/.local/share/man/man1",
        "cantle load routes --csv routes.csv --key carrier,origin,flight:int --value dest,distance",
    ];
    prepare.iter().for_each(|line| drop(run(&place, line)));
    let help = shell(&place, "cantle help");
    let help = String::from_utf8(help.stdout).unwrap();
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A description that is too long goes on further to the right.
    let commands = commands.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"load") && commands.contains(&"man"), "{help}");
    let mut ran = 0;
    for command in commands.into_iter().filter(|command| *command != "help") {
        let page =
            String::from_utf8(shell(&place, &format!("COLUMNS=300 cantle help {command}")).stdout).unwrap();
        // A line that is too long goes on in the next one.
        let mut examples: Vec<String> = Vec::new();
        for line in page.lines().skip_while(|line| *line != "Examples:").skip(1) {
            match line.strip_prefix("  ") {
                Some(own) if own.starts_with("cantle ") || own.contains(" | cantle ") => {
                    examples.push(own.into())
                }
                Some(more) if !examples.is_empty() => *examples.last_mut().unwrap() += &format!(" {more}"),
                _ => {}
            }
        }
        assert!(!examples.is_empty(), "{command} has no examples");
        for example in examples {
            // Words behind several blanks explain it.
            let line = example.split("   ").next().unwrap();
            // Each load makes its own store.
            let fresh = (command == "load").then(prepared);
            ran += usize::from(run(fresh.as_ref().unwrap_or(&place), line).is_some());
        }
    }
    assert!(ran > 40, "{ran}");
}

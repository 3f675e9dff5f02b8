//! `cantle bench` and `cantle tour` as a user runs them, small.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

fn cantle<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cantle")).args(args).output().expect("the command starts")
}

/// Standard output of a run that succeeds.
fn succeeds<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> String {
    let output = cantle(args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{:?}\n{text}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

#[test]
fn bench_smoke_runs_every_workload_over_every_distribution() {
    let text = succeeds(["bench", "--smoke"]);
    let run: BTreeSet<&str> = text.lines().filter_map(|line| line.split("  ").next()).collect();
    let mut planned: BTreeSet<String> =
        ["D over latest", "insert-random", "insert-sequential"].map(String::from).into();
    for workload in ["P", "A", "B", "C", "E10", "E100", "E1000", "S100", "F"] {
        for distribution in ["zipf-simple", "zipf-composite", "latest", "uniform"] {
            planned.insert(format!("{workload} over {distribution}"));
        }
    }
    assert_eq!(run, planned.iter().map(String::as_str).collect());
}

#[test]
fn bench_json_carries_parameters_and_figures() {
    let text = succeeds(
        "bench --workload A,insert-sequential --distribution uniform --records 2k --operations 3k --threads 2 \
         --memory 16MiB --layout chunk:chunk_bytes=64KiB --seed 9 --json"
            .split_whitespace(),
    );
    let reports: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), 2);
    let a = &reports[0];
    assert_eq!((&a["workload"], &a["distribution"]), (&"A".into(), &"uniform".into()));
    assert_eq!((&a["parameters"]["seed"], &a["parameters"]["records"]), (&9.into(), &2000.into()));
    assert_eq!((&a["operations"], &a["missing"], &a["wrong"]), (&3000.into(), &0.into(), &0.into()));
    let count = |operation: &str| a["latency"][operation]["count"].as_u64().unwrap();
    assert_eq!(count("get") + count("put"), 3000);
    assert_eq!(a["user_bytes_written"].as_u64(), Some(count("put") * 814));
    assert!(a["space"]["end"].as_f64().unwrap() >= 1.0);
    let gets = |when: &str| a["stats"][when]["keyspaces"][0]["gets"].as_u64().unwrap();
    assert_eq!(gets("after") - gets("before"), count("get"));
    let parameters = &a["parameters"];
    assert_eq!(
        (&parameters["memory_bytes"], &parameters["durability"], &parameters["compression"]),
        (&(16 << 20).into(), &"process".into(), &"none".into())
    );
    assert_eq!(reports[1]["operations"], 2000);
    assert_eq!(reports[1]["space"]["live_bytes"], 4000 * 814);
}

#[test]
fn bench_runs_in_levels_and_tells_what_reads_search_there() {
    let small =
        "--layout flsm:generation_bytes=64KiB,guard_bytes=64KiB --records 2k --memory 16MiB --threads 2";
    let args = format!("bench --workload insert-random,A,E10 --distribution uniform --operations 1k {small}");
    let text = succeeds(args.split_whitespace());
    for told in [" guards in ", " logs of level 0", " merges, of ", "searched by a get", "merged by a seek"] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert_eq!(text.lines().find(|line| line.chars().count() > 100), None);
    let args = format!("bench --workload insert-random --json {small}");
    let report: serde_json::Value = serde_json::from_str(&succeeds(args.split_whitespace())).unwrap();
    let keyspace = &report["stats"]["after"]["keyspaces"][0];
    assert_eq!(keyspace["layout"], "Flsm");
    assert!(keyspace["by_level"][0]["table_bytes_written"].is_u64(), "{keyspace}");
    let refused = cantle("bench --layout flsm:munks=true".split(' '));
    assert_eq!(refused.status.code(), Some(2));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(told.contains("layout flsm has no option \"munks\"; its options: generation_bytes"), "{told}");
}

#[test]
fn bench_smoke_runs_in_levels() {
    let layout = "flsm:generation_bytes=64KiB,guard_bytes=64KiB,max_sstables_per_guard=2";
    assert!(succeeds(["bench", "--smoke", "--layout", layout]).contains("E1000 over latest"));
}

#[test]
fn bench_duration_ends_in_time_and_tells_the_device_from_the_store() {
    let text = succeeds(
        "bench --workload A --duration 300ms --records 5k --memory 16MiB --layout chunk:chunk_bytes=64KiB --json"
            .split_whitespace(),
    );
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!((0.3..30.0).contains(&report["took_s"].as_f64().unwrap()), "{text}");
    assert!(report["stalls"]["bare_append"]["count"].as_u64() > Some(0), "{text}");
    assert!(report["stats"]["after"]["memory"]["resident"]["limit"].as_u64() > Some(0), "{text}");
}

#[test]
fn bench_reports_stay_within_100_columns() {
    let text = succeeds(
        "bench --workload A,E100 --duration 200ms --records 5k --memory 16MiB --layout chunk:chunk_bytes=64KiB"
            .split_whitespace(),
    );
    assert!(
        ["written", "space", "cached", "stalls", "causes", "memory", "(bare append)"]
            .iter()
            .all(|name| text.contains(name)),
        "{text}"
    );
    assert_eq!(text.lines().find(|line| line.chars().count() > 100), None);
}

#[test]
fn bench_refuses_what_makes_no_sense_with_exit_code_2() {
    for args in ["bench --records 0", "bench --theta 1.5", "bench --workload Z"] {
        assert_eq!(cantle(args.split(' ')).status.code(), Some(2), "{args}");
    }
}

/// The commands that the tour shows: lines that begin with `$ cantle`, continued behind a
/// backslash.
fn shown_commands(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    let commands = joined.lines().filter_map(|line| line.trim_start().strip_prefix("$ cantle "));
    commands.map(|command| command.split_whitespace().map(String::from).collect()).collect()
}

#[test]
fn the_tour_keeps_its_promises_and_its_commands_work() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("tour");
    let text =
        succeeds([Path::new("tour"), Path::new("--rows"), Path::new("20000"), Path::new("--dir"), &store]);
    assert!(text.contains("20,000 flights") && text.contains("checks     7 of 7 held"), "{text}");
    let killed =
        text.lines().find_map(|line| line.trim_start().strip_prefix("killed after it had acknowledged "));
    let acknowledged = killed.and_then(|line| line.split(' ').next()).unwrap().replace(',', "");
    assert!((50_000..100_000).contains(&acknowledged.parse().unwrap()), "{acknowledged} of 100,000");
    let path = store.display().to_string();
    for line in text.lines().filter(|line| !line.contains(&path)) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let commands = shown_commands(&text);
    assert_eq!(commands.len(), 4, "{commands:?}");
    let shown = |command: &[String]| succeeds(command).lines().map(String::from).collect::<Vec<_>>();
    assert_eq!(shown(&commands[0]).iter().filter(|line| line.starts_with("UA,EWR,2013-01-14T1")).count(), 23);
    assert_eq!(shown(&commands[1]).iter().filter(|line| line.starts_with("DL,LGA,2013-01-2")).count(), 10);
    assert!(shown(&commands[2]).len() >= 748);
    assert!(shown(&commands[3]).iter().any(|line| line.starts_with("(first)")));
    // A second tour must not mix with the first.
    assert_eq!(cantle([Path::new("tour"), Path::new("--dir"), &store]).status.code(), Some(3));
}

#[test]
fn the_tour_of_levels_keeps_its_promises_and_its_commands_work() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("tour").display().to_string();
    let text = succeeds(["tour", "--layout", "flsm", "--rows", "20000", "--dir", &store]);
    assert!(text.contains("20,000 flights") && text.contains("checks     7 of 7 held"), "{text}");
    assert!(!text.contains("chunk"), "{text}");
    for told in ["puts go to one log after the other", "read debt", "level 0: ", "level 1: ", "guards in "] {
        assert!(text.contains(told), "{told}: {text}");
    }
    for line in text.lines().filter(|line| !line.contains(&store)) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for command in shown_commands(&text) {
        succeeds(command);
    }
    // The keyspaces of both processes are in the layout.
    let keyspaces = succeeds(["keyspaces", &store, "--json"]);
    assert_eq!(keyspaces.matches("\"layout\": \"flsm\"").count(), 2, "{keyspaces}");
    assert_eq!(cantle(["tour", "--layout", "tree"]).status.code(), Some(2));
}

#[test]
fn the_tour_carries_its_data_and_reports_for_machines() {
    // Far from the repository.
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cantle"));
    command.args(["tour", "--rows", "5000", "--json", "--dir", "kept"]).current_dir(dir.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["ok"], &report["rows"], &report["directory"]),
        (&true.into(), &5000.into(), &"kept".into())
    );
    assert_eq!((&report["checks"], &report["failed"]), (&7.into(), &serde_json::json!([])));
    assert!(report["acknowledged_writes"].as_u64() >= Some(50_000), "{report}");
    let binary = std::fs::read(env!("CARGO_BIN_EXE_cantle")).unwrap();
    let data =
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/flights.csv.gz")).unwrap();
    let head = &data[..1024];
    let finder = |at: &usize| binary[*at..].starts_with(head);
    assert!(
        (0..binary.len() - head.len()).filter(|&at| binary[at] == head[0]).any(|at| finder(&at)),
        "not carried"
    );
}

#[test]
fn the_tour_says_which_file_it_cannot_read() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("no.csv");
    let output = cantle([Path::new("tour"), Path::new("--data"), &data]);
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&data.display().to_string()));
    std::fs::write(&data, "a,b\n1,2\n").unwrap();
    let output = cantle([Path::new("tour"), Path::new("--data"), &data]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no column \"carrier\""));
}

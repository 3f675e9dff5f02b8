//! C and C++ programs against the header and the libraries: warnings are errors, and AddressSanitizer and UBSan watch.
//!
//! A test that cannot run for want of a compiler says so and passes, unless `CANTLE_REQUIRE_COMPILERS` is 1, as in `.ci/run`.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

const C: &[&str] = &["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-pthread"];
const CPP: &[&str] = &["-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-pthread"];
const SANITIZERS: &[&str] =
    &["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn is_there(tool: &str) -> bool {
    let there = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        let required = std::env::var_os("CANTLE_REQUIRE_COMPILERS").is_some_and(|required| required == "1");
        assert!(!required, "CANTLE_REQUIRE_COMPILERS is 1, and there is no {tool}");
        // Past the test's captured output, which nobody sees of a test that passes.
        let _ = writeln!(std::io::stderr(), "left out: there is no {tool}");
    }
    there
}

/// The directory where cargo put the libraries: beside this program.
fn built() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    assert!(deps.join("libcantle_c.so").exists(), "no libcantle_c.so in {}", deps.display());
    deps
}

/// A directory with the library under the names that it is installed by.
fn library() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let built = built();
    for name in ["libcantle.so", &soname()] {
        symlink(built.join("libcantle_c.so"), dir.path().join(name)).unwrap();
    }
    dir
}

fn soname() -> String {
    let version: Vec<&str> = env!("CARGO_PKG_VERSION").split('.').collect();
    format!("libcantle.so.{}.{}", version[0], version[1])
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles a program, runs it with an empty directory and other arguments, and returns what it printed.
fn compile_and_run(
    compiler: &str,
    flags: &[&str],
    source: &Path,
    link: &[&OsStr],
    arguments: &[&OsStr],
) -> String {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    run(Command::new(compiler)
        .args(flags)
        .arg("-I")
        .arg(crate_dir().join("include"))
        .arg("-o")
        .arg(&program)
        .arg(source)
        .args(link));
    let stores = dir.path().join("stores");
    std::fs::create_dir(&stores).unwrap();
    // Everything that malloc gave is freed at the end, by us or the library.
    run(Command::new(program).arg(&stores).args(arguments).env("ASAN_OPTIONS", "detect_leaks=1"))
}

fn shared(compiler: &str, flags: &[&[&str]], source: &Path) -> String {
    let library = library();
    let (search, rpath) =
        (format!("-L{}", library.path().display()), format!("-Wl,-rpath,{}", library.path().display()));
    let link: Vec<&OsStr> = [search.as_str(), &rpath, "-lcantle"].map(OsStr::new).to_vec();
    compile_and_run(compiler, &flags.concat(), source, &link, &[])
}

/// One test for each program, and one that none is forgotten.
macro_rules! programs {
    ($($name:ident)*) => {
        $(
            mod $name {
                use super::*;

                fn source() -> PathBuf {
                    crate_dir().join(concat!("tests/c/", stringify!($name), ".c"))
                }

                #[test]
                fn runs() {
                    if is_there("gcc") {
                        shared("gcc", &[C, &["-O2"]], &source());
                    }
                }

                #[test]
                fn runs_under_sanitizers() {
                    if is_there("gcc") {
                        shared("gcc", &[C, SANITIZERS], &source());
                    }
                }
            }
        )*

        #[test]
        fn every_program_is_run() {
            let mut there: Vec<String> = std::fs::read_dir(crate_dir().join("tests/c"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter_map(|name| name.strip_suffix(".c").map(str::to_owned))
                .collect();
            there.sort();
            let mut run = [$(stringify!($name),)* "unload"];
            run.sort();
            assert_eq!(there, run);
        }
    };
}
programs! { basics transactions swaps updates many bad_calls comparators reports keys threads forks }

/// Its threads and its handler of SIGBUS stay when a program closes the library, and so must its code.
#[test]
fn the_library_may_be_loaded_and_closed() {
    if is_there("gcc") {
        let (source, library) = (crate_dir().join("tests/c/unload.c"), library());
        let library = library.path().join("libcantle.so");
        let flags = [C, &["-O2"]].concat();
        compile_and_run("gcc", &flags, &source, &[OsStr::new("-ldl")], &[library.as_os_str()]);
    }
}

#[test]
fn the_header_is_one_of_cpp_too() {
    if is_there("g++") {
        let bad_calls = crate_dir().join("tests/c/bad_calls.c");
        shared("g++", &[CPP, &["-O2", "-x", "c++"]], &bad_calls);
        let source = crate_dir().join("tests/c/header.cc");
        shared("g++", &[CPP, &["-O2"]], &source);
        shared("g++", &[CPP, SANITIZERS], &source);
    }
}

fn example(name: &str) -> Option<String> {
    let source = crate_dir().join("../../examples/c").join(name);
    is_there("gcc").then(|| {
        shared("gcc", &[C, SANITIZERS], &source);
        shared("gcc", &[C, &["-O2"]], &source)
    })
}

#[test]
fn the_example_of_flights() {
    if let Some(printed) = example("flights.c") {
        assert_eq!(printed, "UA/EWR/2013-07-05: on time\nUA/EWR/2013-07-04: delayed\n");
    }
}

/// The programs of the documentation are those that run, here and in the tests of the other languages.
#[test]
fn the_documentation_shows_the_examples() {
    let page = include_str!("../../../docs/bindings.md");
    let programs = [
        ("```rust", include_str!("../../cantle/examples/ten_lines.rs"), "use "),
        ("```c", include_str!("../../../examples/c/flights.c"), "#include"),
        ("```cpp", include_str!("../../../examples/leveldb-cpp/ten_lines.cc"), "#include"),
        ("```python", include_str!("../../../examples/python/ten_lines.py"), "import "),
    ];
    for (language, program, begin) in programs {
        let program = &program[program.find(begin).unwrap()..];
        assert!(page.contains(&format!("{language}\n{program}```")), "{language}\n{program}");
    }
}

#[test]
fn the_example_of_seats() {
    if let Some(printed) = example("seats.c") {
        assert_eq!(
            printed,
            "ada has 12A\nbob has 12B\n12A was free before\n12B belongs to bob\n2 transactions\n"
        );
    }
}

/// A program that uses every function of the header links: none is declared only.
#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    if !is_there("nm") {
        return;
    }
    let header = include_str!("../include/cantle.h");
    let symbols = run(Command::new("nm").args(["-D", "--defined-only"]).arg(built().join("libcantle_c.so")));
    let mut exported: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    exported.sort_unstable();
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '}']) && !line.starts_with("typedef"))
        .filter_map(|line| line.split('(').next()?.split([' ', '*']).next_back())
        .filter(|name| name.starts_with("cantle_"))
        .collect();
    declared.sort_unstable();
    declared.dedup();
    assert!(declared.len() > 100);
    let strange: Vec<_> = exported.iter().filter(|name| !declared.contains(name)).collect();
    let missing: Vec<_> = declared.iter().filter(|name| !exported.contains(name)).collect();
    assert!(
        strange.is_empty() && missing.is_empty(),
        "exported only: {strange:?}; declared only: {missing:?}"
    );
}

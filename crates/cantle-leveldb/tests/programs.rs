//! C programs that are compiled against the headers and linked with the libraries: Cantle's and, if
//! it is installed, LevelDB's.
//!
//! Tests that need a missing C compiler or LevelDB (Debian's libleveldb-dev) are reported as left
//! out, or fail if an environment variable requires them.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{COMPILERS, has_leveldb, here, leave_out, succeed, works};
use tempfile::TempDir;

const WARNINGS: [&str; 4] = ["-std=gnu99", "-Wall", "-Wextra", "-Werror"];
const SANITIZERS: [&str; 3] = ["-g", "-fsanitize=address,undefined", "-fno-omit-frame-pointer"];
/// System libraries that a static Rust library needs.
const NATIVE: [&str; 5] = ["-lgcc_s", "-lpthread", "-ldl", "-lm", "-lc"];
const DEBIAN_HEADER: &str = "/usr/include/leveldb/c.h";

/// The libraries that cargo made for this test, under the names that programs look for.
struct Libraries {
    dir: TempDir,
}

impl Libraries {
    fn new() -> Self {
        let built = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
        let dir = TempDir::new().unwrap();
        let link =
            |name: &str, to: &str| std::os::unix::fs::symlink(built.join(name), dir.path().join(to)).unwrap();
        assert!(built.join("libcantle_leveldb.so").exists(), "no library in {}", built.display());
        link("libcantle_leveldb.so", "libcantle_leveldb.so");
        link("libcantle_leveldb.so", "libcantle_leveldb.so.0");
        fs::create_dir(dir.path().join("static")).unwrap();
        link("libcantle_leveldb.a", "static/libcantle_leveldb.a");
        Self { dir }
    }
}

/// The header and the library of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Against {
    Ours,
    OursStatically,
    /// LevelDB's header, our library.
    TheirHeader,
    Theirs,
}

fn compiler() -> Option<String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    if works(&compiler) {
        return Some(compiler);
    }
    leave_out(&format!("there is no C compiler ({compiler}); set CC"), COMPILERS);
    None
}

/// Compiles a program; `None` without a compiler or LevelDB.
fn compile(source: &Path, libraries: &Libraries, against: Against, flags: &[&str]) -> Option<PathBuf> {
    let compiler = compiler()?;
    let program = libraries.dir.path().join(source.file_stem().unwrap());
    let mut command = Command::new(compiler);
    command.args(WARNINGS).args(flags).arg("-I").arg(here().join("tests/c"));
    if matches!(against, Against::Ours | Against::OursStatically) {
        command.arg("-I").arg(here().join("include"));
    }
    command.arg(source).arg("-o").arg(&program);
    let dir = libraries.dir.path();
    match against {
        Against::Theirs => command.arg("-lleveldb"),
        Against::OursStatically => {
            command.arg("-L").arg(dir.join("static")).arg("-lcantle_leveldb").args(NATIVE)
        }
        Against::Ours | Against::TheirHeader => {
            command.arg("-L").arg(dir).arg(format!("-Wl,-rpath,{}", dir.display())).arg("-lcantle_leveldb")
        }
    };
    command.arg("-lpthread");
    succeed(&mut command);
    Some(program)
}

fn run(program: &Path) -> String {
    let dir = TempDir::new().unwrap();
    let mut command = Command::new(program);
    command.arg(dir.path()).env_remove("CANTLE_MEMORY_BUDGET").env_remove("CANTLE_LAYOUT");
    succeed(&mut command)
}

fn passes(source: &str, against: Against, flags: &[&str]) {
    let libraries = Libraries::new();
    let source = here().join("tests/c").join(source);
    let Some(program) = compile(&source, &libraries, against, flags) else { return };
    assert_eq!(run(&program), "PASS\n");
}

#[test]
fn every_function_does_what_leveldb_does() {
    passes("semantics.c", Against::Ours, &[]);
    passes("semantics.c", Against::OursStatically, &[]);
}

#[test]
fn every_function_does_so_under_sanitizers() {
    passes("semantics.c", Against::Ours, &SANITIZERS);
}

/// Proves that the two tests above test LevelDB's behaviour.
#[test]
fn leveldb_itself_does_the_same() {
    if has_leveldb() {
        passes("semantics.c", Against::Theirs, &[]);
    }
}

#[test]
fn programs_that_were_compiled_against_leveldbs_header_work() {
    if has_leveldb() {
        passes("semantics.c", Against::TheirHeader, &[]);
    }
}

/// Runs as another user if this one may write anywhere.
#[test]
fn what_cannot_be_written_to_is_an_io_error() {
    passes("unwritable.c", Against::Ours, &[]);
    if has_leveldb() {
        passes("unwritable.c", Against::Theirs, &[]);
    }
}

#[test]
fn bad_calls_give_errors() {
    passes("bad_calls.c", Against::Ours, &[]);
}

#[test]
fn bad_calls_give_errors_under_sanitizers() {
    passes("bad_calls.c", Against::Ours, &SANITIZERS);
}

#[test]
fn extensions_directories_of_others_and_damage() {
    passes("extensions.c", Against::Ours, &[]);
}

#[test]
fn extensions_directories_of_others_and_damage_under_sanitizers() {
    passes("extensions.c", Against::Ours, &SANITIZERS);
}

/// The functions that a header declares.
fn declared(header: &Path) -> Vec<String> {
    let text = fs::read_to_string(header).unwrap();
    let mut code = String::new();
    for (index, part) in text.split("/*").enumerate() {
        code += if index == 0 { part } else { part.split_once("*/").unwrap().1 };
    }
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = code.match_indices("leveldb_").filter(|&(at, _)| !code[..at].ends_with(word));
    let mut names: Vec<String> = starts
        .filter_map(|(at, _)| {
            let name: String = code[at..].chars().take_while(|&c| word(c)).collect();
            code[at + name.len()..].starts_with('(').then_some(name)
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The functions of LevelDB 1.23.
fn functions() -> Vec<String> {
    fs::read_to_string(here().join("tests/functions.txt")).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_list_of_functions_is_leveldbs() {
    if has_leveldb() {
        assert_eq!(functions(), declared(Path::new(DEBIAN_HEADER)));
    }
}

#[test]
fn the_header_declares_leveldbs_functions_and_some_more() {
    let ours = declared(&here().join("include/leveldb/c.h"));
    let missing: Vec<_> = functions().into_iter().filter(|name| !ours.contains(name)).collect();
    assert!(missing.is_empty(), "not declared: {missing:?}");
    let more: Vec<_> = ours.into_iter().filter(|name| !functions().contains(name)).collect();
    assert_eq!(
        more,
        [
            "leveldb_cantle_backup",
            "leveldb_cantle_get",
            "leveldb_iter_cantle_view",
            "leveldb_options_set_cantle_layout",
            "leveldb_options_set_cantle_memory_budget"
        ]
    );
}

/// A program that names every function is linked, with both headers.
#[test]
fn every_function_is_exported() {
    let libraries = Libraries::new();
    let names = functions();
    let mut text =
        String::from("#include <leveldb/c.h>\n#include <stdio.h>\ntypedef void (*function)(void);\n");
    text += "static function functions[] = {\n";
    names.iter().for_each(|name| text += &format!("  (function){name},\n"));
    text += "};\nint main(int argc, char** argv) {\n  (void)argv;\n";
    text += "  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {\n";
    text += "    if (functions[i] == NULL) return argc;\n  }\n  puts(\"PASS\");\n  return 0;\n}\n";
    let source = libraries.dir.path().join("functions.c");
    fs::write(&source, text).unwrap();
    let headers = [Some(Against::Ours), has_leveldb().then_some(Against::TheirHeader)];
    for against in headers.into_iter().flatten() {
        // GCC warns of every cast between types of functions.
        let Some(program) = compile(&source, &libraries, against, &["-Wno-cast-function-type"]) else {
            return;
        };
        assert_eq!(run(&program), "PASS\n");
    }
}

/// Headers for C programs and for C++ programs.
#[test]
fn the_header_is_plain_c_and_plain_cpp() {
    let header = here().join("include/leveldb/c.h");
    for (compiler, language, standard) in [("cc", "c", "-std=c99"), ("c++", "c++", "-std=c++11")] {
        let mut command = Command::new(compiler);
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", standard, "-x", language]);
        if works(compiler) {
            succeed(command.arg(&header));
        } else {
            leave_out(&format!("there is no compiler {compiler}"), COMPILERS);
        }
    }
}

/// The example in `examples/leveldb-c`, with both libraries.
#[test]
fn the_example_works() {
    let libraries = Libraries::new();
    let source = here().join("../../examples/leveldb-c/flights.c");
    let theirs = has_leveldb().then_some(Against::Theirs);
    for against in [Some(Against::Ours), theirs].into_iter().flatten() {
        let Some(program) = compile(&source, &libraries, against, &[]) else { return };
        let told = run(&program);
        assert_eq!(
            told,
            "DL LGA 2013-07-04 0461: on time\n\
             UA EWR 2013-07-05 1545: on time\n\
             UA EWR 2013-07-04 1545: delayed\n",
        );
    }
}

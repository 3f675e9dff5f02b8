//! C++ programs that are compiled against LevelDB's C++ headers, Cantle's and LevelDB's own, linked
//! with either library, and run.
//!
//! Tests that need a missing C++ compiler, CMake or LevelDB (Debian's libleveldb-dev) are reported
//! as left out, or fail if an environment variable requires them. Comparisons with LevelDB's own
//! library take as long as all other tests, and run only if `CANTLE_REQUIRE_LEVELDB=1` requires
//! them.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use support::{COMPILERS, LEVELDB, has_leveldb, here, is_required, leave_out, succeed, works};
use tempfile::TempDir;

const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"];
const PLAIN: [&str; 1] = ["-std=c++11"];
const SANITIZERS: [&str; 5] = [
    "-std=c++17",
    "-g",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];
/// Options to compile with LevelDB's own headers.
const NEWER: [&str; 1] = ["-std=c++17"];
/// Headers that do not compile: each names its replacement.
const NOT_THERE: [&str; 3] = ["table.h", "table_builder.h", "dumpfile.h"];

/// The headers and the library of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Against {
    Cantle,
    /// Cantle's C++ headers over LevelDB's C header and library: a failure is an error of the
    /// headers.
    HeadersOverLevelDb,
    LevelDb,
}

/// A program in `tests/cpp`, and the options in its first line.
fn source(name: &str) -> (PathBuf, Vec<String>) {
    let path = here().join("tests/cpp").join(format!("{name}.cc"));
    let text = fs::read_to_string(&path).unwrap();
    let first = text.lines().next().unwrap().strip_prefix("// options: ").unwrap_or_default();
    (path, first.split_whitespace().map(str::to_owned).collect())
}

/// `#include` lines of Cantle's headers that compile.
fn headers(folders: &[&str]) -> Vec<String> {
    let include = here().join("include");
    let mut found = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(include.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.ends_with(".h") && !NOT_THERE.contains(&&*name) {
                found.push(format!("#include <{}>\n", path.strip_prefix(&include).unwrap().display()));
            }
        }
    }
    found.sort();
    found
}

/// A directory with the libraries that cargo made for this test, Cantle's C++ headers without the C
/// header, and the compiled programs.
struct Workshop {
    dir: TempDir,
    compiler: String,
}

impl Workshop {
    /// `None`, with a report, without a C++ compiler.
    fn new() -> Option<Self> {
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
        if !works(&compiler) {
            leave_out(&format!("there is no C++ compiler ({compiler}); set CXX"), COMPILERS);
            return None;
        }
        let dir = TempDir::new().unwrap();
        let built = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
        for (name, link) in [
            ("libcantle_leveldb.so", "libcantle_leveldb.so"),
            ("libcantle_leveldb.so", "libcantle_leveldb.so.0"),
            ("libcantle_leveldb.a", "libcantle_leveldb.a"),
        ] {
            assert!(built.join(name).exists(), "no {name} in {}", built.display());
            symlink(built.join(name), dir.path().join(link)).unwrap();
        }
        let headers = dir.path().join("include/leveldb");
        fs::create_dir_all(&headers).unwrap();
        for entry in fs::read_dir(here().join("include/leveldb")).unwrap().map(Result::unwrap) {
            if entry.file_name() != "c.h" {
                symlink(entry.path(), headers.join(entry.file_name())).unwrap();
            }
        }
        Some(Self { dir, compiler })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Compiles sources and links them to `output`.
    fn compile(&self, sources: &[&Path], output: &str, against: Against, flags: &[&str]) -> PathBuf {
        let program = self.path(output);
        let mut command = Command::new(&self.compiler);
        command.args(WARNINGS).args(flags);
        match against {
            Against::Cantle => drop(command.arg("-I").arg(here().join("include"))),
            Against::HeadersOverLevelDb => {
                command.arg("-I").arg(self.path("include")).arg("-DLINKED_WITH_LEVELDB");
            }
            Against::LevelDb => {}
        }
        command.args(sources).arg("-o").arg(&program).arg("-L").arg(self.dir.path());
        command.arg(format!("-Wl,-rpath,{}", self.dir.path().display()));
        command
            .arg(if against == Against::Cantle { "-lcantle_leveldb" } else { "-lleveldb" })
            .arg("-pthread");
        succeed(&mut command);
        program
    }

    fn run(&self, program: &Path) {
        self.run_part(program, None);
    }

    fn run_part(&self, program: &Path, part: Option<&str>) {
        let dir = TempDir::new().unwrap();
        let mut command = Command::new(program);
        // These would have precedence over the program's own settings.
        command.args(part).arg(dir.path()).env_remove("CANTLE_MEMORY_BUDGET").env_remove("CANTLE_LAYOUT");
        succeed(&mut command);
    }

    /// Compiles and runs one of the programs.
    fn program(&self, name: &str, against: Against, flags: &[&str]) {
        let (source, options) = source(name);
        let flags: Vec<_> = flags.iter().copied().chain(options.iter().map(String::as_str)).collect();
        self.run(&self.compile(&[&source], "program", against, &flags));
    }

    fn every_program(&self, against: Against, flags: &[&str]) {
        JOINED.iter().chain(&ALONE).for_each(|name| self.program(name, against, flags));
        self.two_units(against, flags);
    }

    /// A program and a shared library that both include the headers.
    fn two_units(&self, against: Against, flags: &[&str]) {
        let folder = here().join("tests/cpp/two_units");
        let hidden = ["-fPIC", "-shared", "-fvisibility=hidden", "-fvisibility-inlines-hidden"];
        let flags_of_library: Vec<_> = flags.iter().chain(&hidden).copied().collect();
        let other = self.compile(&[&folder.join("other.cc")], "libother.so", against, &flags_of_library);
        self.run(&self.compile(&[&folder.join("main.cc"), &other], "two_units", against, flags));
    }
}

/// Several programs compiled as one, since most of the compile time is for the inline functions of
/// the headers. Each program is in a namespace of its own.
struct Joined {
    workshop: Workshop,
    program: PathBuf,
}

impl Joined {
    fn new(flags: &[&str]) -> Option<Self> {
        let workshop = Workshop::new()?;
        let (mut includes, mut parts) = (BTreeSet::new(), String::new());
        let mut main = String::from(
            "int main(int count, char** arguments) {\n  const std::string part = arguments[1];\n",
        );
        for name in JOINED {
            let path = here().join("tests/cpp").join(format!("{name}.cc"));
            let text = fs::read_to_string(&path).unwrap();
            includes.extend(text.lines().filter(|line| line.starts_with("#include")).map(str::to_owned));
            let body = text.replace("int main(", "int run(");
            let body = body.trim_end().strip_suffix('}').unwrap();
            // Only the true `main` may end without a `return`.
            parts += &format!(
                "namespace part_{name} {{\n#line 1 \"{}\"\n{body}  return 0;\n}}\n}}\n",
                path.display()
            );
            main +=
                &format!("  if (part == \"{name}\") return part_{name}::run(count - 1, arguments + 1);\n");
        }
        let includes: String = includes.iter().map(|line| format!("{line}\n")).collect();
        let source = workshop.path("joined.cc");
        fs::write(&source, format!("{includes}{parts}{main}  return 1;\n}}\n")).unwrap();
        let mut flags = flags.to_vec();
        let folder = here().join("tests/cpp").display().to_string();
        flags.extend(["-I", &folder]);
        let program = workshop.compile(&[&source], "joined", Against::Cantle, &flags);
        Some(Self { workshop, program })
    }

    fn plain() -> Option<&'static Self> {
        static MADE: OnceLock<Option<Joined>> = OnceLock::new();
        MADE.get_or_init(|| Self::new(&PLAIN)).as_ref()
    }

    fn with_sanitizers() -> Option<&'static Self> {
        static MADE: OnceLock<Option<Joined>> = OnceLock::new();
        MADE.get_or_init(|| Self::new(&SANITIZERS)).as_ref()
    }

    fn run(&self, part: &str) {
        self.workshop.run_part(&self.program, Some(part));
    }
}

macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        const JOINED: &[&str] = &[$(stringify!($name)),*];
        $(
            mod $name {
                use super::*;

                #[test]
                fn runs() {
                    if let Some(joined) = Joined::plain() {
                        joined.run(stringify!($name));
                    }
                }

                #[test]
                fn runs_under_sanitizers() {
                    if let Some(joined) = Joined::with_sanitizers() {
                        joined.run(stringify!($name));
                    }
                }
            }
        )*
    };
}

programs! {
    caches,
    comparators,
    database,
    environments,
    filter_policies,
    options,
    threads,
    usage_samples,
    usage_wrapper,
    values,
    write_batches,
}

/// Programs that cannot be joined: they test declarations before or next to the headers, or other
/// compiler options.
const ALONE: [&str; 3] = ["derived_stores", "names", "no_exceptions"];

#[test]
fn programs_that_cannot_be_joined_run() {
    let Some(workshop) = Workshop::new() else { return };
    ALONE.iter().for_each(|name| workshop.program(name, Against::Cantle, &PLAIN));
}

#[test]
fn every_program_has_its_test() {
    let entries = fs::read_dir(here().join("tests/cpp")).unwrap().map(|entry| entry.unwrap().file_name());
    let names: BTreeSet<_> =
        entries.filter_map(|name| name.to_string_lossy().strip_suffix(".cc").map(str::to_owned)).collect();
    assert_eq!(names, JOINED.iter().chain(&ALONE).map(|&name| name.to_owned()).collect());
}

#[test]
fn a_library_and_its_program_have_the_same_objects() {
    let Some(workshop) = Workshop::new() else { return };
    workshop.two_units(Against::Cantle, &PLAIN);
}

/// The same programs run with LevelDB, so Cantle's interface is LevelDB's.
#[test]
fn programs_run_with_leveldb() {
    with_leveldb(Against::LevelDb);
}

/// LevelDB's own C++ functions are in the process here. If one of Cantle's functions replaced one
/// of theirs, opening would not end.
#[test]
fn headers_work_beside_leveldb() {
    with_leveldb(Against::HeadersOverLevelDb);
}

fn with_leveldb(against: Against) {
    if !is_required(LEVELDB) {
        leave_out(&format!("comparing with LevelDB takes a minute; set {LEVELDB}=1"), LEVELDB);
    } else if let Some(workshop) = Workshop::new()
        && has_leveldb()
    {
        workshop.every_program(against, &NEWER);
    }
}

#[test]
fn programs_of_the_newest_standard_run() {
    let Some(joined) = Joined::new(&["-std=c++20"]) else { return };
    JOINED.iter().for_each(|name| joined.run(name));
}

/// Compiles a source with warnings that programs may enable. An error is the compiler's output.
fn check(workshop: &Workshop, text: &str, flags: &[&str]) -> Result<(), String> {
    let source = workshop.path("header.cc");
    fs::write(&source, text).unwrap();
    let mut command = Command::new(&workshop.compiler);
    command.args(WARNINGS).args(["-Wconversion", "-Wnon-virtual-dtor", "-fsyntax-only"]).args(flags);
    let output = command.arg("-I").arg(here().join("include")).arg(&source).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}:\n{told}")) }
}

#[test]
fn headers_compile_by_themselves() {
    let Some(workshop) = Workshop::new() else { return };
    let ours = headers(&["leveldb", "leveldb/helpers"]);
    assert!(ours.len() >= 13, "headers are missing: {ours:?}");
    for line in ours {
        check(&workshop, &line.repeat(2), &["-std=c++11"]).unwrap();
    }
    for name in NOT_THERE {
        let told = check(&workshop, &format!("#include <leveldb/{name}>\n"), &["-std=c++11"]).unwrap_err();
        assert!(told.contains("docs/bindings/leveldb-cpp.md"), "{told}");
    }
    // Programs rely on LevelDB's header including `<algorithm>`.
    let text = "#include <leveldb/status.h>\nint most(int a, int b) { return std::max(a, b); }\n";
    check(&workshop, text, &["-std=c++11", "-Wno-missing-declarations"]).unwrap();
}

#[test]
fn headers_compile_in_every_standard() {
    let Some(workshop) = Workshop::new() else { return };
    let all = headers(&["leveldb", "leveldb/cantle", "leveldb/helpers"]).concat();
    for flags in [
        &["-std=c++11", "-fno-exceptions", "-fno-rtti"][..],
        &["-std=c++14"],
        &["-std=c++17", "-fvisibility=hidden"],
        &["-std=c++20"],
        &["-std=c++20", "-fno-exceptions", "-fno-rtti"],
    ] {
        check(&workshop, &all, flags).unwrap();
    }
}

/// A prefix as `make install` makes it, and a project that looks for the package `leveldb` in it.
#[test]
fn cmake_finds_the_package() {
    let Some(workshop) = Workshop::new() else { return };
    if !works("cmake") {
        leave_out("there is no CMake", COMPILERS);
        return;
    }
    for (prefix, libraries, option) in [
        ("plain", "lib", "-DCANTLE_LEVELDB_STATIC=OFF"),
        ("multiarch", "lib/x86_64-linux-gnu", "-DCANTLE_LEVELDB_STATIC=ON"),
    ] {
        let prefix = workshop.path(prefix);
        let libraries = prefix.join(libraries);
        fs::create_dir_all(libraries.join("cmake")).unwrap();
        symlink(here().join("include"), prefix.join("include")).unwrap();
        // Copied, as CMake resolves links.
        fs::create_dir(libraries.join("cmake/leveldb")).unwrap();
        for name in ["leveldbConfig.cmake", "leveldbConfigVersion.cmake"] {
            fs::copy(here().join("cmake").join(name), libraries.join("cmake/leveldb").join(name)).unwrap();
        }
        for name in ["libcantle_leveldb.so", "libcantle_leveldb.so.0", "libcantle_leveldb.a"] {
            symlink(workshop.path(name), libraries.join(name)).unwrap();
        }
        counts(&workshop, &prefix, option);
    }
}

/// Builds the project in `tests/cmake` against a prefix, and runs it.
fn counts(workshop: &Workshop, prefix: &Path, option: &str) {
    let build = TempDir::new().unwrap();
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(here().join("tests/cmake")).arg("-B").arg(build.path()).arg(option);
    configure.arg(format!("-DCMAKE_CXX_COMPILER={}", workshop.compiler));
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    succeed(&mut configure);
    succeed(Command::new("cmake").arg("--build").arg(build.path()));
    let store = build.path().join("store");
    for expected in ["1\n", "2\n"] {
        assert_eq!(succeed(Command::new(build.path().join("counter")).arg(&store)), expected);
    }
    assert!(!store.join("CURRENT").exists(), "LevelDB was found in Cantle's place");
}

/// The examples in `examples/leveldb-cpp`, with both libraries.
#[test]
fn the_examples_work() {
    let Some(workshop) = Workshop::new() else { return };
    let theirs = (is_required(LEVELDB) && has_leveldb()).then_some(Against::LevelDb);
    let examples = [
        (
            "flights.cc",
            "DL LGA 2013-07-04 0461: on time\n\
             UA EWR 2013-07-05 1545: on time\n\
             UA EWR 2013-07-04 1545: delayed\n",
        ),
        ("ten_lines.cc", "UA/EWR/2013-07-05: on time\nUA/EWR/2013-07-04: delayed\n"),
    ];
    for (name, printed) in examples {
        let source = here().join("../../examples/leveldb-cpp").join(name);
        for against in [Some(Against::Cantle), theirs].into_iter().flatten() {
            let program = workshop.compile(&[&source], "example", against, &PLAIN);
            let dir = TempDir::new().unwrap();
            assert_eq!(succeed(Command::new(program).arg(dir.path())), printed);
        }
    }
}

//! The command `cantle`; see the library of the same package.

fn main() -> std::process::ExitCode {
    cantle_cli::run()
}

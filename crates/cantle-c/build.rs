//! Names the shared library as it is installed: programs look for it by this name.

fn main() {
    // While the version is 0.x, each x has an interface of its own.
    let minor = std::env::var("CARGO_PKG_VERSION_MINOR").unwrap_or_default();
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcantle.so.{major}.{minor}");
    // A program that is done with it may say so (`dlclose`), but threads and the handler of SIGBUS stay, and so must their code.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}

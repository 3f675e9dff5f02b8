//! Names the shared library, so that programs find the version of the interface that they were
//! linked with.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcantle_leveldb.so.0");
    // Threads and the handler of SIGBUS outlive a `dlclose`, so their code must stay loaded.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}

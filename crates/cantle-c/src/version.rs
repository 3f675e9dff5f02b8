//! Version of the library and of its header.

use std::ffi::c_char;

/// Major number of the version of this header. The version of the library is cantle_version().
pub const CANTLE_VERSION_MAJOR: u32 = 0;
/// Minor number of the version. While the major number is 0, recompile programs when this one
/// changes.
pub const CANTLE_VERSION_MINOR: u32 = 1;
/// Patch number of the version.
pub const CANTLE_VERSION_PATCH: u32 = 0;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// The version of the library, such as "0.1.0".
///
/// Ownership: the text is the library's, and stays. Errors: none. Threads: any, at any time.
#[unsafe(no_mangle)]
pub extern "C" fn cantle_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_package_s_version() {
        let header = format!("{CANTLE_VERSION_MAJOR}.{CANTLE_VERSION_MINOR}.{CANTLE_VERSION_PATCH}");
        assert_eq!(header, env!("CARGO_PKG_VERSION"));
    }
}

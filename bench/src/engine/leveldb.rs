//! LevelDB, or any library with its C API (`leveldb=PATH.so`), loaded on demand.
//!
//! `unsafe` code only calls foreign functions. Their contracts are those of `leveldb/c.h`: handles
//! are valid from their `create` or `open` to their `destroy` or `close`, databases may be used by
//! any thread, iterators by one, and errors and values are freed by `leveldb_free`.
#![expect(unsafe_code, reason = "a C API")]

use super::{Durability, Engine, Opened, Settings, Spec};
use crate::failure::{Failure, Result, on};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// Names to try if no library is named; the first is Debian's.
const NAMES: [&str; 2] = ["libleveldb.so.1d", "libleveldb.so"];

/// Bits of the Bloom filter per key.
const BLOOM_BITS: c_int = 10;

/// A handle of the library.
type Handle = *mut c_void;

macro_rules! api {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that are used, named as in `leveldb/c.h` without the prefix.
        struct Api { $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)* _library: Library }

        impl Api {
            fn load(library: Library) -> Result<Self> {
                // SAFETY: the types are those of leveldb/c.h, and the library stays loaded as long
                // as the functions.
                unsafe {
                    Ok(Self {
                        $($name: *library.get(concat!("leveldb_", stringify!($name), "\0").as_bytes())?,)*
                        _library: library,
                    })
                }
            }
        }
    };
}

api! {
    open: fn(Handle, *const c_char, *mut *mut c_char) -> Handle;
    close: fn(Handle);
    put: fn(Handle, Handle, *const c_char, usize, *const c_char, usize, *mut *mut c_char);
    delete: fn(Handle, Handle, *const c_char, usize, *mut *mut c_char);
    get: fn(Handle, Handle, *const c_char, usize, *mut usize, *mut *mut c_char) -> *mut c_char;
    create_iterator: fn(Handle, Handle) -> Handle;
    iter_destroy: fn(Handle);
    iter_valid: fn(Handle) -> c_uchar;
    iter_seek: fn(Handle, *const c_char, usize);
    iter_next: fn(Handle);
    iter_key: fn(Handle, *mut usize) -> *const c_char;
    iter_value: fn(Handle, *mut usize) -> *const c_char;
    iter_get_error: fn(Handle, *mut *mut c_char);
    options_create: fn() -> Handle;
    options_set_create_if_missing: fn(Handle, c_uchar);
    options_set_cache: fn(Handle, Handle);
    options_set_write_buffer_size: fn(Handle, usize);
    options_set_filter_policy: fn(Handle, Handle);
    options_set_compression: fn(Handle, c_int);
    cache_create_lru: fn(usize) -> Handle;
    filterpolicy_create_bloom: fn(c_int) -> Handle;
    readoptions_create: fn() -> Handle;
    writeoptions_create: fn() -> Handle;
    writeoptions_set_sync: fn(Handle, c_uchar);
    free: fn(*mut c_void);
}

struct LevelDb {
    api: Api,
    db: Handle,
    read_options: Handle,
    write_options: Handle,
    /// Like `write_options`, but every write is synced.
    sync_options: Handle,
}

// SAFETY: LevelDB's databases and options may be used by any thread; iterators stay on the stack of
// one call.
unsafe impl Send for LevelDb {}
// SAFETY: as above.
unsafe impl Sync for LevelDb {}

/// Opens LevelDB with filters, cache and buffer for the run's memory.
pub fn open(spec: &Spec, settings: &Settings) -> Result<Opened> {
    let (library, name) = load(spec.library.as_deref())?;
    let version = version(&library);
    let api = Api::load(library)?;
    // LevelDB has two memtables: one that is written to and one that is being flushed.
    let write_buffer = (settings.budget_bytes / 8).clamp(1 << 20, 64 << 20);
    let cache = settings.budget_bytes.saturating_sub(2 * write_buffer).max(1 << 20);
    std::fs::create_dir_all(&settings.dir)?;
    let path = CString::new(settings.dir.as_os_str().as_bytes())?;
    let mut error = ptr::null_mut();
    // SAFETY: every handle comes from its `create` and is never destroyed, as they last as long as
    // the process.
    let store = unsafe {
        let options = (api.options_create)();
        (api.options_set_create_if_missing)(options, 1);
        (api.options_set_compression)(options, 0);
        (api.options_set_write_buffer_size)(options, usize::try_from(write_buffer)?);
        (api.options_set_cache)(options, (api.cache_create_lru)(usize::try_from(cache)?));
        (api.options_set_filter_policy)(options, (api.filterpolicy_create_bloom)(BLOOM_BITS));
        let write_options = (api.writeoptions_create)();
        (api.writeoptions_set_sync)(write_options, c_uchar::from(settings.durability == Durability::Sync));
        let sync_options = (api.writeoptions_create)();
        (api.writeoptions_set_sync)(sync_options, 1);
        let db = (api.open)(options, path.as_ptr(), &raw mut error);
        LevelDb { read_options: (api.readoptions_create)(), write_options, sync_options, db, api }
    };
    store.check(error)?;
    Ok(Opened {
        engine: Box::new(store),
        configuration: format!(
            "Bloom filters of {BLOOM_BITS} bits; block cache {cache}; write_buffer_size {write_buffer}; compression none"
        ),
        caveats: vec!["one background thread: it has no other number".into()],
        version: format!("{name} {version}"),
    })
}

fn load(path: Option<&Path>) -> Result<(Library, String)> {
    // SAFETY: the libraries' initialisers are those of any C++ library.
    unsafe {
        if let Some(path) = path {
            let library = Library::new(path).map_err(on("load", path))?;
            return Ok((library, path.display().to_string()));
        }
        let found = NAMES.iter().find_map(|name| Some((Library::new(*name).ok()?, "LevelDB".to_string())));
        found.ok_or_else(|| Failure(format!("none of {} could be loaded: install LevelDB", NAMES.join(", "))))
    }
}

fn version(library: &Library) -> String {
    type Number = unsafe extern "C" fn() -> c_int;
    // SAFETY: the functions of leveldb/c.h; forks may lack them.
    unsafe {
        match (
            library.get::<Number>(b"leveldb_major_version\0"),
            library.get::<Number>(b"leveldb_minor_version\0"),
        ) {
            (Ok(major), Ok(minor)) => format!("{}.{}", major(), minor()),
            _ => "of unknown version".into(),
        }
    }
}

impl LevelDb {
    /// Returns the text of an error, if there is one, and frees it.
    fn check(&self, error: *mut c_char) -> Result {
        if error.is_null() {
            return Ok(());
        }
        // SAFETY: not null, so it is a text that this function must free.
        unsafe {
            let text = CStr::from_ptr(error).to_string_lossy().into_owned();
            (self.api.free)(error.cast());
            Err(Failure(text))
        }
    }

    fn put_with(&self, options: Handle, key: &[u8], value: &[u8]) -> Result {
        let mut error = ptr::null_mut();
        let (key, key_length) = (key.as_ptr().cast(), key.len());
        // SAFETY: open handles, and slices that live through the call.
        unsafe {
            (self.api.put)(
                self.db,
                options,
                key,
                key_length,
                value.as_ptr().cast(),
                value.len(),
                &raw mut error,
            );
        }
        self.check(error)
    }
}

impl Engine for LevelDb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result {
        self.put_with(self.write_options, key, value)
    }

    fn delete(&self, key: &[u8]) -> Result {
        let mut error = ptr::null_mut();
        // SAFETY: open handles, and a slice that lives through the call.
        unsafe {
            (self.api.delete)(self.db, self.write_options, key.as_ptr().cast(), key.len(), &raw mut error);
        }
        self.check(error)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let (mut error, mut length) = (ptr::null_mut(), 0);
        // SAFETY: open handles, a slice that lives through the call; the value is freed here after
        // its last use.
        unsafe {
            let value = (self.api.get)(
                self.db,
                self.read_options,
                key.as_ptr().cast(),
                key.len(),
                &raw mut length,
                &raw mut error,
            );
            self.check(error)?;
            if value.is_null() {
                return Ok(false);
            }
            read(std::slice::from_raw_parts(value.cast(), length));
            (self.api.free)(value.cast());
        }
        Ok(true)
    }

    fn scan(&self, from: &[u8], to: Option<&[u8]>, rows: u64, read: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        let mut error = ptr::null_mut();
        // SAFETY: the iterator lives in this call; its bytes are used before it moves.
        unsafe {
            let iterator = (self.api.create_iterator)(self.db, self.read_options);
            (self.api.iter_seek)(iterator, from.as_ptr().cast(), from.len());
            for left in (0..rows).rev() {
                if (self.api.iter_valid)(iterator) == 0 {
                    break;
                }
                let (mut key_length, mut value_length) = (0, 0);
                let key = (self.api.iter_key)(iterator, &raw mut key_length);
                let key = std::slice::from_raw_parts(key.cast::<u8>(), key_length);
                if to.is_some_and(|to| key >= to) {
                    break;
                }
                let value = (self.api.iter_value)(iterator, &raw mut value_length);
                read(key, std::slice::from_raw_parts(value.cast::<u8>(), value_length));
                // A seek alone reads no further pair.
                if left > 0 {
                    (self.api.iter_next)(iterator);
                }
            }
            (self.api.iter_get_error)(iterator, &raw mut error);
            (self.api.iter_destroy)(iterator);
        }
        self.check(error)
    }

    fn sync(&self) -> Result {
        // A synced write makes the writes before it durable, too. The key sorts before all keys of
        // the workloads.
        self.put_with(self.sync_options, b"\0sync", b"")
    }

    fn close(self: Box<Self>) -> Result {
        // SAFETY: the database is not used any more.
        unsafe { (self.api.close)(self.db) };
        Ok(())
    }
}

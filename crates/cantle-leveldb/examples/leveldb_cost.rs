//! The cost of a get and of a step of an iterator in Rust, through LevelDB's C interface over
//! Cantle and, if it is installed, in LevelDB itself. Processor time, medians of rounds; all ways
//! take turns in each round.
//!
//!     cargo build --release -p cantle-leveldb
//!     cargo run --release -p cantle-leveldb --example leveldb_cost [OTHER-LIBRARY.so ...]
#![expect(unsafe_code, reason = "calls C functions of libraries that are loaded by name")]
#![expect(clippy::missing_transmute_annotations, reason = "the fields that are filled have the types")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::path::Path;
use std::ptr::{null, null_mut};

const KEYS: u64 = 100_000;
const VALUE_BYTES: usize = 100;
const GETS: u64 = 300_000;
const ROUNDS: usize = 15;

type Error = *mut *mut c_char;

/// The functions of a library that the example needs.
struct Library {
    create_options: extern "C" fn() -> *mut c_void,
    set_create: extern "C" fn(*mut c_void, u8),
    set_compression: extern "C" fn(*mut c_void, c_int),
    set_cache: extern "C" fn(*mut c_void, *mut c_void),
    create_cache: extern "C" fn(usize) -> *mut c_void,
    create_read_options: extern "C" fn() -> *mut c_void,
    create_write_options: extern "C" fn() -> *mut c_void,
    open: extern "C" fn(*mut c_void, *const c_char, Error) -> *mut c_void,
    put: extern "C" fn(*mut c_void, *mut c_void, *const u8, usize, *const u8, usize, Error),
    get: extern "C" fn(*mut c_void, *mut c_void, *const u8, usize, *mut usize, Error) -> *mut c_char,
    compact: extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize),
    create_iterator: extern "C" fn(*mut c_void, *mut c_void) -> *mut c_void,
    to_first: extern "C" fn(*mut c_void),
    next: extern "C" fn(*mut c_void),
    valid: extern "C" fn(*mut c_void) -> u8,
    key: extern "C" fn(*mut c_void, *mut usize) -> *const u8,
    value: extern "C" fn(*mut c_void, *mut usize) -> *const u8,
    destroy_iterator: extern "C" fn(*mut c_void),
    free: extern "C" fn(*mut c_void),
    /// Cantle's extensions.
    lend: Option<Lend>,
    view: Option<extern "C" fn(*mut c_void) -> *const View>,
}

type Found = extern "C" fn(*mut c_void, *const u8, usize);
type Lend =
    extern "C" fn(*mut c_void, *mut c_void, *const u8, usize, *mut c_void, Option<Found>, Error) -> u8;

/// `leveldb_cantle_view_t`.
#[repr(C)]
struct View {
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
    valid: u8,
}

impl Library {
    fn load(name: &str) -> Option<Self> {
        let name = CString::new(name).ok()?;
        // SAFETY: the name is a C string; the library is never closed.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return None;
        }
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the library is open, and the name is a C string.
                let found = unsafe { libc::dlsym(library, concat!("leveldb_", $name, "\0").as_ptr().cast()) };
                assert!(!found.is_null(), $name);
                // SAFETY: functions of these names have the types that LevelDB's header gives them.
                unsafe { std::mem::transmute(found) }
            }};
        }
        macro_rules! extension {
            ($name:literal) => {{
                // SAFETY: as above.
                let found = unsafe { libc::dlsym(library, concat!("leveldb_", $name, "\0").as_ptr().cast()) };
                // SAFETY: as above; the header of Cantle gives them their types.
                unsafe { std::mem::transmute(found) }
            }};
        }
        Some(Self {
            create_options: function!("options_create"),
            set_create: function!("options_set_create_if_missing"),
            set_compression: function!("options_set_compression"),
            set_cache: function!("options_set_cache"),
            create_cache: function!("cache_create_lru"),
            create_read_options: function!("readoptions_create"),
            create_write_options: function!("writeoptions_create"),
            open: function!("open"),
            put: function!("put"),
            get: function!("get"),
            compact: function!("compact_range"),
            create_iterator: function!("create_iterator"),
            to_first: function!("iter_seek_to_first"),
            next: function!("iter_next"),
            valid: function!("iter_valid"),
            key: function!("iter_key"),
            value: function!("iter_value"),
            destroy_iterator: function!("iter_destroy"),
            free: function!("free"),
            lend: extension!("cantle_get"),
            view: extension!("iter_cantle_view"),
        })
    }
}

fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    key[4..].copy_from_slice(format!("{number:012}").as_bytes());
    key
}

/// Keys in an order that repeats only after all of them.
fn keys() -> Vec<[u8; 16]> {
    (0..KEYS).map(|number| key(number * 61_803 % KEYS)).collect()
}

type Get<'a> = Box<dyn FnMut(&[u8]) -> usize + 'a>;

/// One way to read a store: the number of bytes that a get of a key finds, and the number of pairs
/// that an iterator finds.
struct Way<'a> {
    name: String,
    get: Get<'a>,
    walk: Box<dyn FnMut() -> u64 + 'a>,
    get_nanos: Vec<f64>,
    step_nanos: Vec<f64>,
}

impl<'a> Way<'a> {
    fn new(name: &str, get: impl FnMut(&[u8]) -> usize + 'a, walk: impl FnMut() -> u64 + 'a) -> Self {
        let name = name.to_owned();
        Self { name, get: Box::new(get), walk: Box::new(walk), get_nanos: Vec::new(), step_nanos: Vec::new() }
    }

    fn turn(&mut self, keys: &[[u8; 16]]) {
        let begun = processor_nanos();
        for key in keys.iter().cycle().take(GETS as usize) {
            assert_eq!((self.get)(key), VALUE_BYTES);
        }
        self.get_nanos.push((processor_nanos() - begun) / GETS as f64);
        let begun = processor_nanos();
        assert_eq!((self.walk)(), KEYS);
        self.step_nanos.push((processor_nanos() - begun) / KEYS as f64);
    }
}

/// Processor time of this thread. The clock would include the work of other programs.
fn processor_nanos() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn rust(db: &cantle::Db) -> Way<'_> {
    let get = |key: &[u8]| db.get(key).ok().flatten().map_or(0, |value| value.to_vec().len());
    let walk = || {
        let (mut cursor, mut found) = (db.cursor(..), 0);
        let mut is_valid = cursor.seek_to_first().unwrap_or(false);
        while is_valid {
            black_box(cursor.pair());
            found += 1;
            is_valid = cursor.next().unwrap_or(false);
        }
        found
    };
    Way::new("Cantle in Rust, a copy each", get, walk)
}

/// A database that a library has open, with options to read it.
#[derive(Clone, Copy)]
struct Open<'a> {
    library: &'a Library,
    db: *mut c_void,
    reading: *mut c_void,
}

fn check(error: *mut c_char) {
    // SAFETY: an error is a C string.
    assert!(error.is_null(), "{}", unsafe { CStr::from_ptr(error) }.to_string_lossy());
}

impl<'a> Open<'a> {
    fn new(library: &'a Library, dir: &Path, keys: &[[u8; 16]]) -> Self {
        let mut error: *mut c_char = null_mut();
        let options = (library.create_options)();
        (library.set_create)(options, 1);
        (library.set_compression)(options, 0);
        (library.set_cache)(options, (library.create_cache)(248 << 20));
        let (reading, writing) = ((library.create_read_options)(), (library.create_write_options)());
        let name = CString::new(dir.as_os_str().as_encoded_bytes()).unwrap_or_default();
        let db = (library.open)(options, name.as_ptr(), &mut error);
        check(error);
        let value = [7; VALUE_BYTES];
        for key in keys {
            (library.put)(db, writing, key.as_ptr(), key.len(), value.as_ptr(), VALUE_BYTES, &mut error);
        }
        check(error);
        (library.compact)(db, null(), 0, null(), 0);
        Self { library, db, reading }
    }

    fn by_calls(self, name: &str) -> Way<'a> {
        let Self { library, db, reading } = self;
        let get = move |key: &[u8]| {
            let (mut length, mut error) = (0, null_mut());
            let value = (library.get)(db, reading, key.as_ptr(), key.len(), &mut length, &mut error);
            (library.free)(value.cast());
            check(error);
            length
        };
        let walk = move || {
            let (iterator, mut length, mut found) = ((library.create_iterator)(db, reading), 0, 0);
            (library.to_first)(iterator);
            while (library.valid)(iterator) != 0 {
                black_box(((library.key)(iterator, &mut length), (library.value)(iterator, &mut length)));
                found += 1;
                (library.next)(iterator);
            }
            (library.destroy_iterator)(iterator);
            found
        };
        Way::new(name, get, walk)
    }

    fn by_extensions(self, name: &str) -> Option<Way<'a>> {
        extern "C" fn note(state: *mut c_void, _value: *const u8, length: usize) {
            // SAFETY: `state` points to the `usize` below.
            unsafe { *state.cast::<usize>() = length };
        }
        let Self { library, db, reading } = self;
        let (lend, view) = (library.lend?, library.view?);
        let get = move |key: &[u8]| {
            let (mut length, mut error) = (0usize, null_mut());
            lend(db, reading, key.as_ptr(), key.len(), (&raw mut length).cast(), Some(note), &mut error);
            check(error);
            length
        };
        let walk = move || {
            let (iterator, mut found) = ((library.create_iterator)(db, reading), 0);
            let view = view(iterator);
            (library.to_first)(iterator);
            loop {
                // SAFETY: the view's address is valid until the iterator is destroyed.
                let View { key, key_bytes, value, value_bytes, valid } = unsafe { view.read_volatile() };
                if valid == 0 {
                    break;
                }
                black_box((key, key_bytes, value, value_bytes));
                found += 1;
                (library.next)(iterator);
            }
            (library.destroy_iterator)(iterator);
            found
        };
        Some(Way::new(name, get, walk))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let keys = keys();
    let db = cantle::Options::new().memory_budget(256 << 20).open(dir.path().join("rust"))?;
    keys.iter().try_for_each(|key| db.put(key, [7; VALUE_BYTES]))?;
    db.compact_range(..)?;
    let built = std::env::current_exe()?;
    let built = built.parent().and_then(Path::parent).ok_or("there is no directory of what was built")?;
    let ours = built.join("libcantle_leveldb.so").to_string_lossy().into_owned();
    let mut names = vec![("Cantle".to_owned(), ours)];
    names.extend(std::env::args().skip(1).map(|other| (other.clone(), other)));
    names.push(("LevelDB".into(), "libleveldb.so.1d".into()));
    let libraries: Vec<_> = names.iter().map(|(name, path)| (name, Library::load(path))).collect();

    let mut ways = vec![rust(&db)];
    for (number, (name, library)) in libraries.iter().enumerate() {
        let Some(library) = library else {
            println!("left out: {name}; `cargo build --release -p cantle-leveldb` makes Cantle's");
            continue;
        };
        let open = Open::new(library, &dir.path().join(number.to_string()), &keys);
        ways.push(open.by_calls(&format!("{name}, LevelDB's C calls")));
        ways.extend(open.by_extensions(&format!("{name}, lent and by a view")));
    }
    // Three rounds, until the data is in memory.
    (0..3).for_each(|_| ways.iter_mut().for_each(|way| way.turn(&keys)));
    for way in &mut ways {
        way.get_nanos.clear();
        way.step_nanos.clear();
    }
    (0..ROUNDS).for_each(|_| ways.iter_mut().for_each(|way| way.turn(&keys)));
    println!(
        "{KEYS} records of {VALUE_BYTES} bytes, {ROUNDS} rounds, medians of processor time; a step is next, valid, key and value"
    );
    for Way { name, get_nanos, step_nanos, .. } in ways {
        println!("{name:<40} {:6.0} ns a get {:6.0} ns a step", median(get_nanos), median(step_nanos));
    }
    Ok(())
}

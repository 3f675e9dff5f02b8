//! The cost of a get in C beside Rust: the same keys in the same order, in turns, of the same store in memory.
//!
//! `cargo run --release -p cantle-c --example get_cost [ROUNDS]`; with `smoke` instead of a number, a tiny one that only runs.
//!
//! The C functions are called through pointers that the optimiser does not see through, so nothing of them is inlined, as in a program that
//! links the library. The library is linked as an archive and not by its symbols: this leaves out the jump through the linkage table, a nanosecond.
#![expect(unsafe_code, reason = "calls the functions as C does")]

use cantle_c::{db::*, memory::*, read::*, status::cantle_status};
use std::ffi::CString;
use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::time::Instant;

const VALUE_BYTES: usize = 100;

struct Size {
    records: u64,
    gets: u64,
    rounds: usize,
}

fn key(number: u64) -> [u8; 12] {
    let mut key = *b"key.........";
    // Spread over the keys, so that neighbours in time are none in the store.
    key[4..].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// Nanoseconds for each get of a turn.
fn turn(size: &Size, mut get: impl FnMut(&[u8]) -> usize) -> f64 {
    let begun = Instant::now();
    let mut bytes = 0;
    for number in 0..size.gets {
        bytes += get(&key(number.wrapping_mul(7) % size.records));
    }
    assert_eq!(bytes, size.gets as usize * VALUE_BYTES, "every key was there");
    begun.elapsed().as_nanos() as f64 / size.gets as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let argument = std::env::args().nth(1);
    let size = match argument.as_deref() {
        Some("smoke") => Size { records: 1_000, gets: 10_000, rounds: 1 },
        rounds => Size {
            records: 100_000,
            gets: 500_000,
            rounds: rounds.map_or(15, |rounds| rounds.parse().expect("a number of rounds")),
        },
    };
    let dir = tempfile::tempdir().expect("a directory");
    let path = CString::new(dir.path().join("store").into_os_string().into_encoded_bytes()).expect("a path");
    // SAFETY: the header's contract is kept: texts end with zero, pointers and lengths fit.
    let db = unsafe { cantle_open(path.as_ptr(), null(), null_mut()) };
    let rust = behind(db).expect("the store");
    for number in 0..size.records {
        rust.put(key(number), [7; VALUE_BYTES]).expect("a put");
    }

    let (get, get_into, free) =
        black_box((cantle_get as GetFn, cantle_get_into as GetIntoFn, cantle_free as FreeFn));
    let by_rust = |key: &[u8]| rust.get(key).expect("a get").map_or(0, |value| value.len());
    let by_c = |key: &[u8]| {
        let (mut value, mut len) = (null_mut(), 0);
        // SAFETY: as above.
        unsafe {
            let status =
                get(db, null_mut(), key.as_ptr().cast(), key.len(), &mut value, &mut len, null_mut());
            assert_eq!(status, cantle_status::CANTLE_OK);
            free(value.cast());
        }
        len
    };
    let mut buffer = [0u8; 256];
    let mut by_c_into = |key: &[u8]| {
        let (mut found, mut len) = (false, 0);
        // SAFETY: as above.
        unsafe {
            let (key, key_len) = (key.as_ptr().cast(), key.len());
            let room = buffer.as_mut_ptr().cast();
            get_into(db, null_mut(), key, key_len, room, buffer.len(), &mut len, &mut found, null_mut());
        }
        if found { len } else { 0 }
    };

    // Until what is read is in memory.
    for _ in 0..3 {
        turn(&size, by_rust);
        turn(&size, by_c);
    }
    let (mut rust_nanos, mut c_nanos, mut into_nanos) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..size.rounds {
        rust_nanos.push(turn(&size, by_rust));
        c_nanos.push(turn(&size, by_c));
        into_nanos.push(turn(&size, &mut by_c_into));
    }
    let more = |nanos: &[f64]| median(nanos.iter().zip(&rust_nanos).map(|(c, rust)| c - rust).collect());
    println!(
        "{} gets of {} records of {VALUE_BYTES} bytes in each of {} rounds; medians, nanoseconds",
        size.gets, size.records, size.rounds
    );
    println!("Db::get          {:7.1}", median(rust_nanos.clone()));
    println!("cantle_get       {:7.1}   {:+.1} in the same round", median(c_nanos.clone()), more(&c_nanos));
    println!(
        "cantle_get_into  {:7.1}   {:+.1} in the same round",
        median(into_nanos.clone()),
        more(&into_nanos)
    );
    // SAFETY: as above.
    assert_eq!(unsafe { cantle_close(db, null_mut()) }, cantle_status::CANTLE_OK);
}

type GetFn = unsafe extern "C" fn(
    *mut cantle_db,
    *mut cantle_c::keyspace::cantle_keyspace,
    *const std::ffi::c_void,
    usize,
    *mut *mut std::ffi::c_char,
    *mut usize,
    *mut *mut cantle_c::error::cantle_error,
) -> cantle_status;
type GetIntoFn = unsafe extern "C" fn(
    *mut cantle_db,
    *mut cantle_c::keyspace::cantle_keyspace,
    *const std::ffi::c_void,
    usize,
    *mut std::ffi::c_void,
    usize,
    *mut usize,
    *mut bool,
    *mut *mut cantle_c::error::cantle_error,
) -> cantle_status;
type FreeFn = unsafe extern "C" fn(*mut std::ffi::c_void);

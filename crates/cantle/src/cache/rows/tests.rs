use super::rows::{RowCache, Rows};
use crate::filter::bloom::hash;
use crate::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::sync::random::Rng;
use crate::sync::{Arc, Mutex};

/// With few stripes under Miri, which takes long for many.
fn cache() -> RowCache {
    if cfg!(miri) { RowCache::with_stripes(1 << 20, 32) } else { RowCache::new(1 << 20) }
}

fn rows() -> Rows {
    Rows::new(Arc::new(cache()))
}

fn fill(rows: &Rows, key: &[u8], value: &[u8]) {
    if let Some(stamp) = rows.stamp(hash(key)) {
        rows.insert(key, hash(key), stamp, value);
    }
}

#[test]
fn a_put_outdates_its_row_and_a_fill_that_began_before_it() {
    let rows = rows();
    fill(&rows, b"a", b"old");
    assert_eq!(rows.get(b"a", hash(b"a")).as_deref(), Some(&b"old"[..]));
    let began_before = rows.stamp(hash(b"a")).unwrap();
    rows.of_key(hash(b"a")).enter();
    assert!(rows.get(b"a", hash(b"a")).is_none() && rows.stamp(hash(b"a")).is_none());
    rows.of_key(hash(b"a")).leave();
    rows.insert(b"a", hash(b"a"), began_before, b"old");
    assert!(rows.get(b"a", hash(b"a")).is_none(), "a fill that began before the put hides it");
    fill(&rows, b"a", b"new");
    assert_eq!(rows.get(b"a", hash(b"a")).as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_put_updates_the_row_that_is_there_and_makes_none() {
    let rows = rows();
    let put = |value: &[u8]| {
        rows.of_key(hash(b"a")).enter();
        rows.of_key(hash(b"a")).leave();
        rows.update(b"a", hash(b"a"), value);
    };
    put(b"not read");
    assert!(rows.get(b"a", hash(b"a")).is_none() && rows.shared.used_bytes() == 0);
    fill(&rows, b"a", b"old");
    put(b"new");
    assert_eq!(rows.get(b"a", hash(b"a")).as_deref(), Some(&b"new"[..]));
    // A write of another key in the same stripe is in progress: it may be newer.
    rows.of_key(hash(b"a")).enter();
    rows.update(b"a", hash(b"a"), b"newer");
    assert!(rows.get(b"a", hash(b"a")).is_none());
    rows.of_key(hash(b"a")).leave();
    assert!(rows.get(b"a", hash(b"a")).is_none(), "the row was outdated");
    put(&[0; 200_000]);
    assert!(rows.get(b"a", hash(b"a")).is_none(), "what is too long for a row leaves the old one outdated");
}

#[test]
fn a_range_delete_outdates_all_rows_of_its_keyspace_only() {
    let shared = Arc::new(cache());
    let (one, two) = (Rows::new(shared.clone()), Rows::new(shared));
    fill(&one, b"a", b"1");
    fill(&two, b"a", b"2");
    one.of_all().enter();
    one.of_all().leave();
    assert!(one.get(b"a", hash(b"a")).is_none());
    assert_eq!(two.get(b"a", hash(b"a")).as_deref(), Some(&b"2"[..]));
}

#[test]
#[cfg_attr(miri, ignore = "a million stripes")]
fn there_are_more_stripes_than_rows() {
    for (capacity_bytes, stripes) in [(0, 32 << 10), (24 << 20, 256 << 10), (1 << 40, 1 << 20)] {
        let cache = Arc::new(RowCache::new(capacity_bytes));
        assert_eq!(cache.stripes.len(), stripes);
        let rows = Rows::new(cache);
        rows.of_key(u64::MAX).enter();
        assert!(rows.stamp(u64::MAX).is_none() && rows.stamp(0).is_some());
    }
}

#[test]
fn puts_of_several_threads_in_one_stripe_are_waited_for() {
    let rows = rows();
    let stripe = rows.of_key(hash(b"a"));
    stripe.enter();
    stripe.enter();
    stripe.leave();
    assert!(rows.stamp(hash(b"a")).is_none(), "one of them is at it");
    stripe.leave();
    assert!(rows.stamp(hash(b"a")).is_some());
}

#[test]
#[cfg_attr(miri, ignore = "long, and nothing that the others don't do")]
fn the_capacity_bounds_what_is_kept_and_can_be_moved() {
    let rows = rows();
    for n in 0..10_000u32 {
        fill(&rows, &n.to_be_bytes(), &[7; 500]);
    }
    let used_bytes = rows.shared.used_bytes();
    assert!(used_bytes <= 1 << 20 && used_bytes > 800 << 10, "{used_bytes}");
    rows.shared.set_capacity_bytes(256 << 10);
    fill(&rows, b"one more", b"row");
    assert!(rows.shared.used_bytes() <= 256 << 10, "{}", rows.shared.used_bytes());
}

/// Recounted bytes equal the accounted ones, and are within the capacity.
fn check_accounts(rows: &Rows) -> usize {
    let shared = &rows.shared;
    let counts = shared.shards.iter().map(|shard| shard.lock().count());
    let (mapped, indexed, count) =
        counts.fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
    assert_eq!(shared.used_bytes(), (mapped + indexed) as u64);
    assert!(shared.used_bytes() <= shared.capacity_bytes(), "{} bytes", shared.used_bytes());
    count
}

#[test]
fn whatever_happens_a_hit_is_the_last_value_and_the_accounts_are_right() {
    const KEYS: usize = 300;
    const CAPACITY_BYTES: u64 = if cfg!(miri) { 160 << 10 } else { 4 << 20 };
    for seed in 0..if cfg!(miri) { 1 } else { 8 } {
        let mut rng = Rng::new(seed);
        let rows = Rows::new(Arc::new(RowCache::with_stripes(CAPACITY_BYTES, 1024)));
        let keys: Vec<Vec<u8>> = (0..KEYS).map(|n| vec![n as u8; n]).collect();
        let mut values: Vec<Option<Vec<u8>>> = vec![None; KEYS];
        let mut lent = Vec::new();
        let mut hits = 0;
        for _ in 0..if cfg!(miri) { 300 } else { 40_000 } {
            // Half of the operations concern a tenth of the keys.
            let range = if rng.one_in(2) { KEYS / 10 } else { KEYS };
            let n = rng.below(range as u64) as usize;
            let (key, hash) = (&keys[n], hash(&keys[n]));
            match rng.below(1000) {
                0 => {
                    rows.of_all().enter();
                    values.fill(None);
                    rows.of_all().leave();
                }
                1..5 => rows.shared.set_capacity_bytes(rng.below(CAPACITY_BYTES)),
                5..300 => {
                    // Short values, some long, few very long.
                    let bytes_max = [900, 900, 900, 900, 5_000, 20_000, 300_000][rng.below(7) as usize];
                    let value = rng.next_u64().to_le_bytes().repeat(rng.below(bytes_max) as usize / 8);
                    rows.of_key(hash).enter();
                    rows.of_key(hash).leave();
                    rows.update(key, hash, &value);
                    values[n] = Some(value);
                }
                _ => match rows.get(key, hash) {
                    Some(row) => {
                        hits += 1;
                        assert_eq!(Some(&*row), values[n].as_deref());
                        if rng.one_in(20) {
                            lent.push((row, values[n].clone()));
                        }
                    }
                    None => {
                        if let Some(value) = &values[n] {
                            rows.insert(key, hash, rows.stamp(hash).unwrap(), value);
                        }
                    }
                },
            }
            // Lent values do not change.
            if lent.len() > 8 {
                for (row, value) in lent.drain(..) {
                    assert_eq!(Some(&*row), value.as_deref());
                }
                // With the next change, segments that were held count within the capacity again.
                rows.shared.set_capacity_bytes(rows.shared.capacity_bytes() ^ 1);
                check_accounts(&rows);
            }
        }
        assert!(hits > if cfg!(miri) { 1 } else { 5_000 }, "{hits}");
        lent.clear();
        rows.shared.set_capacity_bytes(CAPACITY_BYTES);
        assert!(check_accounts(&rows) > 0);
        rows.shared.set_capacity_bytes(0);
        assert_eq!(check_accounts(&rows), 0);
        assert!(rows.shared.used_bytes() < 1000, "{}", rows.shared.used_bytes());
    }
}

#[test]
fn threads_that_put_get_and_shrink_see_no_row_of_before() {
    const KEYS: u64 = 64;
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let rows = Rows::new(Arc::new(RowCache::with_stripes(1 << 20, 32)));
    // The files: the value that counts as written, under each key's lock.
    let files: Vec<Mutex<u64>> = (0..KEYS).map(|_| Mutex::new(0)).collect();
    let written: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let key = |n: u64| n.to_be_bytes();
    // The number, repeated; the number also decides the length.
    let value = |number: u64| number.to_be_bytes().repeat(1 + number as usize % 300);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (rows, files, written) = (&rows, &files, &written);
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                for _ in 0..rounds {
                    let n = rng.below(KEYS);
                    let (key, hash) = (key(n), hash(&key(n)));
                    if rng.one_in(200) {
                        rows.shared.set_capacity_bytes(rng.below(1 << 20));
                    } else if rng.one_in(3) {
                        let mut file = files[n as usize].lock();
                        rows.of_key(hash).enter();
                        *file += 1;
                        let number = *file;
                        rows.of_key(hash).leave();
                        rows.update(&key, hash, &value(number));
                        written[n as usize].store(number, SeqCst);
                    } else {
                        let before = written[n as usize].load(SeqCst);
                        if let Some(row) = rows.get(&key, hash) {
                            let number = u64::from_be_bytes(row[..8].try_into().unwrap());
                            assert!(number >= before, "a row of before");
                            assert_eq!(&*row, value(number), "a row that is half another");
                        } else if let Some(stamp) = rows.stamp(hash) {
                            let number = *files[n as usize].lock();
                            rows.insert(&key, hash, stamp, &value(number));
                        }
                    }
                }
            });
        }
    });
    assert!(rows.shared.hits.get() > 0);
    rows.shared.set_capacity_bytes(1 << 20);
    check_accounts(&rows);
}

#[test]
#[cfg_attr(miri, ignore = "long, and nothing that the others don't do")]
fn rows_that_grow_with_each_put_leave_room_for_others() {
    let rows = rows();
    for n in 0..200u32 {
        fill(&rows, &n.to_be_bytes(), &[1; 1000]);
    }
    let mut found = 0;
    for round in 0..20_000usize {
        let key = (round as u32 % 50).to_be_bytes();
        rows.of_key(hash(&key)).enter();
        rows.of_key(hash(&key)).leave();
        rows.update(&key, hash(&key), &vec![2; 1000 + round / 50 % 2 * 3000]);
        assert!(rows.get(&key, hash(&key)).is_some(), "round {round}");
        let other = (100 + round as u32 % 100).to_be_bytes();
        found += usize::from(rows.get(&other, hash(&other)).is_some());
    }
    check_accounts(&rows);
    assert!(found > 19_000, "{found}");
}

#[test]
fn a_long_row_is_cached_and_takes_little_more_than_it_is_long() {
    let rows = Rows::new(Arc::new(RowCache::with_stripes(1 << 20, 1)));
    fill(&rows, b"long", &[5; 100_000]);
    assert_eq!(rows.get(b"long", hash(b"long")).map(|row| row.len()), Some(100_000));
    assert!(rows.shared.used_bytes() < 105_000, "{}", rows.shared.used_bytes());
    fill(&rows, b"too long", &[5; 140_000]);
    assert!(rows.get(b"too long", hash(b"too long")).is_none(), "an eighth of a shard at most");
}

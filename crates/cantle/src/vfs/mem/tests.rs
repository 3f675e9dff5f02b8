use super::*;
use std::collections::BTreeSet;

const ROOT: &str = "/";

fn create(vfs: &MemVfs, path: &str, bytes: &[u8]) -> Arc<MemFile> {
    let file = vfs.open_file(Path::new(path), OpenMode::CreateNew).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

fn read(vfs: &MemVfs, path: &str) -> Option<Vec<u8>> {
    let file = vfs.open_file(Path::new(path), OpenMode::Read).ok()?;
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    Some(bytes)
}

fn sync_dir(vfs: &MemVfs, path: &str) {
    vfs.sync_dir(Path::new(path)).unwrap();
}

/// A file whose name and first bytes are durable.
fn durable(bytes: &[u8]) -> (MemVfs, Arc<MemFile>) {
    let vfs = MemVfs::new();
    let file = create(&vfs, "/file", bytes);
    file.sync_data().unwrap();
    sync_dir(&vfs, ROOT);
    (vfs, file)
}

fn plan(seed: u64, data: Survival, tail: Tail) -> CrashPlan {
    CrashPlan { seed, names: Survival::Everything, data, tail }
}

/// The possible contents of `/file`, over many seeds.
fn outcomes(vfs: &MemVfs, data: Survival, tail: Tail) -> BTreeSet<Vec<u8>> {
    (0..400).map(|seed| read(&vfs.crash(&plan(seed, data, tail)), "/file").unwrap()).collect()
}

#[test]
fn behaves_as_a_file_system() {
    super::super::conformance::check(&MemVfs::new(), Path::new(ROOT));
    super::super::conformance::check(&MemVfs::without_history(), Path::new(ROOT));
}

#[test]
fn synced_data_under_a_synced_name_outlives_every_crash() {
    let (vfs, _file) = durable(b"kept");
    for seed in 0..100 {
        assert_eq!(read(&vfs.crash(&CrashPlan::random(seed)), "/file").unwrap(), b"kept");
    }
}

#[test]
fn a_synced_file_is_lost_until_its_name_is_synced() {
    let vfs = MemVfs::new();
    create(&vfs, "/file", b"bytes").sync_data().unwrap();
    assert_eq!(read(&vfs.crash(&CrashPlan::LOSE_UNSYNCED), "/file"), None);
    sync_dir(&vfs, ROOT);
    assert_eq!(read(&vfs.crash(&CrashPlan::LOSE_UNSYNCED), "/file").unwrap(), b"bytes");
}

#[test]
fn a_synced_name_of_an_unsynced_file_is_an_empty_file() {
    let vfs = MemVfs::new();
    let _file = create(&vfs, "/file", b"bytes");
    sync_dir(&vfs, ROOT);
    assert_eq!(read(&vfs.crash(&CrashPlan::LOSE_UNSYNCED), "/file").unwrap(), b"");
    assert_eq!(read(&vfs.crash(&CrashPlan::KEEP_ALL), "/file").unwrap(), b"bytes");
}

#[test]
fn a_directory_is_lost_until_its_parent_is_synced() {
    let vfs = MemVfs::new();
    vfs.create_dir_all(Path::new("/db/inner")).unwrap();
    create(&vfs, "/db/inner/file", b"bytes").sync_data().unwrap();
    sync_dir(&vfs, "/db/inner");
    sync_dir(&vfs, "/db");
    let crashed = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
    assert!(crashed.metadata(Path::new("/db")).unwrap().is_none());
    sync_dir(&vfs, ROOT);
    assert_eq!(read(&vfs.crash(&CrashPlan::LOSE_UNSYNCED), "/db/inner/file").unwrap(), b"bytes");
}

#[test]
fn an_unsynced_replacement_leaves_the_old_file_or_the_new_one() {
    let (vfs, _file) = durable(b"old");
    create(&vfs, "/temporary", b"new").sync_data().unwrap();
    vfs.rename(Path::new("/temporary"), Path::new("/file")).unwrap();
    let left: BTreeSet<_> = (0..100)
        .map(|seed| read(&vfs.crash(&CrashPlan::random(seed)), "/file").expect("one of them is there"))
        .collect();
    assert_eq!(left, BTreeSet::from([b"old".to_vec(), b"new".to_vec()]));
    sync_dir(&vfs, ROOT);
    let crashed = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
    assert_eq!(crashed.list(Path::new(ROOT)).unwrap(), ["file"]);
    assert_eq!(read(&crashed, "/file").unwrap(), b"new");
}

#[test]
fn an_unsynced_removal_may_be_undone() {
    let (vfs, file) = durable(b"old");
    drop(file);
    vfs.remove(Path::new("/file")).unwrap();
    assert_eq!(read(&vfs.crash(&CrashPlan::LOSE_UNSYNCED), "/file").unwrap(), b"old");
    assert_eq!(read(&vfs.crash(&CrashPlan::KEEP_ALL), "/file"), None);
}

#[test]
fn scattered_names_come_and_go_independently() {
    let (vfs, _file) = durable(b"old");
    vfs.remove(Path::new("/file")).unwrap();
    let _other = create(&vfs, "/other", b"");
    let survival =
        |seed| CrashPlan { names: Survival::Scattered, ..plan(seed, Survival::Nothing, Tail::Cut) };
    let left: BTreeSet<_> = (0..100)
        .map(|seed| {
            let crashed = vfs.crash(&survival(seed));
            (read(&crashed, "/file").is_some(), read(&crashed, "/other").is_some())
        })
        .collect();
    assert_eq!(left.len(), 4);
}

#[test]
fn a_file_that_moves_between_directories_is_in_one_at_least() {
    let vfs = MemVfs::new();
    vfs.create_dir_all(Path::new("/from")).unwrap();
    vfs.create_dir_all(Path::new("/to")).unwrap();
    create(&vfs, "/from/file", b"bytes").sync_data().unwrap();
    sync_dir(&vfs, "/from");
    sync_dir(&vfs, ROOT);
    vfs.rename(Path::new("/from/file"), Path::new("/to/file")).unwrap();
    let left: BTreeSet<_> = (0..200)
        .map(|seed| {
            let crashed = vfs.crash(&CrashPlan::random(seed));
            (read(&crashed, "/from/file").is_some(), read(&crashed, "/to/file").is_some())
        })
        .collect();
    assert_eq!(left, BTreeSet::from([(true, false), (true, true), (false, true)]));
    sync_dir(&vfs, "/from");
    let crashed = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
    assert_eq!(read(&crashed, "/from/file"), None);
    assert_eq!(read(&crashed, "/to/file").unwrap(), b"bytes");
}

#[test]
fn the_names_of_one_file_are_names_of_one_file_in_copies() {
    let (vfs, _file) = durable(b"bytes");
    vfs.hard_link(Path::new("/file"), Path::new("/link")).unwrap();
    for copy in [vfs.kill(), vfs.crash(&CrashPlan::KEEP_ALL)] {
        copy.open_file(Path::new("/link"), OpenMode::ReadWrite).unwrap().write_at(b"B", 0).unwrap();
        assert_eq!(read(&copy, "/file").unwrap(), b"Bytes");
        assert_eq!(read(&vfs, "/file").unwrap(), b"bytes", "copies are independent");
    }
}

#[test]
fn a_torn_write_is_cut_where_a_disk_would_cut_it() {
    let (vfs, file) = durable(&[0; 16_384]);
    file.write_at(&[1; 16_000], 100).unwrap();
    let mut cuts = BTreeSet::new();
    for left in outcomes(&vfs, Survival::Prefix, Tail::Cut) {
        assert_eq!(left.len(), 16_384);
        let kept = left.iter().filter(|&&byte| byte == 1).count();
        assert!(left[100..100 + kept].iter().all(|&byte| byte == 1), "a prefix");
        if kept > 0 && kept < 16_000 {
            cuts.insert((100 + kept) % 4096);
            assert_eq!((100 + kept) % 512, 0);
        }
    }
    assert!(cuts.contains(&0) && cuts.contains(&512), "{cuts:?}");
}

#[test]
fn scattered_writes_are_lost_out_of_order() {
    let (vfs, file) = durable(&[0; 8192]);
    file.write_at(&[1; 4096], 0).unwrap();
    file.write_at(&[2; 4096], 4096).unwrap();
    let left = outcomes(&vfs, Survival::Scattered, Tail::Cut);
    let second_without_first = |bytes: &Vec<u8>| bytes[0] == 0 && bytes[4096] == 2;
    assert!(left.iter().any(second_without_first));
    assert!(left.iter().any(|bytes| bytes.iter().all(|&byte| byte == 0)));
    assert!(left.iter().any(|bytes| bytes[0] == 1 && bytes[8191] == 2));
}

#[test]
fn a_later_write_to_a_sector_never_lands_without_the_earlier_one() {
    let (vfs, file) = durable(&[0; 512]);
    file.write_at(&[1; 256], 0).unwrap();
    file.write_at(&[2; 256], 256).unwrap();
    for data in [Survival::Prefix, Survival::Scattered] {
        for left in outcomes(&vfs, data, Tail::Any) {
            assert!(left[0] == 1 || left[511] == 0);
        }
    }
}

#[test]
fn a_lost_tail_is_cut_or_zeros_or_garbage() {
    let (vfs, file) = durable(&[7; 1024]);
    file.write_at(&[8; 4096], 1024).unwrap();
    for data in [Survival::Prefix, Survival::Scattered] {
        for left in outcomes(&vfs, data, Tail::Cut) {
            assert_ne!(left.last(), Some(&0), "the file ends with what was kept");
        }
        let zeros = outcomes(&vfs, data, Tail::Zeros);
        assert!(zeros.iter().any(|left| left.len() == 5120 && left.ends_with(&[0; 512])));
        let garbage = outcomes(&vfs, data, Tail::Garbage);
        assert!(garbage.iter().any(|left| left.len() == 5120 && left[4608..].iter().any(|&byte| byte > 8)));
        for left in zeros.iter().chain(&garbage) {
            assert_eq!(left[..1024], [7; 1024], "durable bytes that nobody wrote stay");
        }
    }
}

#[test]
fn an_unsynced_truncation_leaves_the_old_length_or_the_new_one() {
    let (vfs, file) = durable(&[7; 6000]);
    file.set_len(1000).unwrap();
    let left = outcomes(&vfs, Survival::Any, Tail::Any);
    assert!(left.contains(&vec![7; 6000]));
    assert!(left.contains(&vec![7; 1000]));
    file.sync_data().unwrap();
    assert_eq!(outcomes(&vfs, Survival::Any, Tail::Any), BTreeSet::from([vec![7; 1000]]));
}

#[test]
fn a_sync_covers_truncations_between_writes() {
    let (vfs, file) = durable(&[7; 9000]);
    file.write_at(&[1; 5000], 0).unwrap();
    file.set_len(100).unwrap();
    file.write_at(&[2; 50], 8000).unwrap();
    file.sync_data().unwrap();
    let crashed = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
    assert_eq!(read(&crashed, "/file"), read(&vfs, "/file"));
}

#[test]
fn the_same_plan_gives_the_same_bytes() {
    let vfs = MemVfs::new();
    for number in 0..20u8 {
        create(&vfs, &format!("/{number}"), &[number; 10_000]).set_len(9_000).unwrap();
    }
    for seed in 0..50 {
        let (one, other) = (vfs.crash(&CrashPlan::random(seed)), vfs.crash(&CrashPlan::random(seed)));
        for number in 0..20 {
            let path = format!("/{number}");
            assert_eq!(read(&one, &path), read(&other, &path));
        }
    }
}

#[test]
fn what_a_crash_left_is_durable() {
    let (vfs, file) = durable(b"");
    file.write_at(&[1; 5000], 0).unwrap();
    for seed in 0..50 {
        let once = vfs.crash(&CrashPlan::random(seed));
        let twice = once.crash(&CrashPlan::LOSE_UNSYNCED);
        assert_eq!(read(&once, "/file"), read(&twice, "/file"));
    }
}

#[test]
fn a_killed_process_loses_its_locks_and_nothing_else() {
    let (vfs, file) = durable(b"old");
    file.write_at(b"new", 0).unwrap();
    let _created = create(&vfs, "/other", b"unsynced");
    let _lock = vfs.lock(Path::new("/LOCK"), LockMode::Exclusive).unwrap();
    let killed = vfs.kill();
    assert_eq!(read(&killed, "/file").unwrap(), b"new");
    assert_eq!(read(&killed, "/other").unwrap(), b"unsynced");
    killed.lock(Path::new("/LOCK"), LockMode::Exclusive).unwrap();
    assert!(vfs.lock(Path::new("/LOCK"), LockMode::Exclusive).is_err());
    let crashed = killed.crash(&CrashPlan::LOSE_UNSYNCED);
    assert_eq!(read(&crashed, "/file").unwrap(), b"old", "a copy knows what was not synced");
    assert_eq!(read(&crashed, "/other"), None);
}

#[test]
fn the_page_cache_outlives_a_process_but_not_a_power_loss() {
    let vfs = MemVfs::new();
    let identity = |vfs: &MemVfs| vfs.page_cache_identity(Path::new(ROOT)).unwrap().unwrap();
    assert_eq!(identity(&vfs.kill()), identity(&vfs));
    assert_ne!(identity(&vfs.crash(&CrashPlan::KEEP_ALL)), identity(&vfs));
    assert_ne!(identity(&MemVfs::without_history().crash(&CrashPlan::KEEP_ALL)), identity(&vfs));
    assert_ne!(identity(&MemVfs::new()), identity(&vfs));
}

#[test]
fn a_full_file_system_stores_the_prefix_that_fits() {
    let vfs = MemVfs::new();
    vfs.set_capacity_bytes(Some(8192));
    let file = create(&vfs, "/file", &[1; 4096]);
    let error = file.write_at(&[2; 10_000], 4096).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 8192);
    assert_eq!(vfs.available_bytes(Path::new(ROOT)).unwrap(), 0);
    file.write_at(&[3; 8192], 0).unwrap();
    vfs.set_capacity_bytes(None);
    file.write_at(&[2; 10_000], 8192).unwrap();
}

#[test]
fn space_comes_back_when_a_file_has_neither_name_nor_handle() {
    let vfs = MemVfs::new();
    vfs.set_capacity_bytes(Some(1 << 20));
    let available = || vfs.available_bytes(Path::new(ROOT)).unwrap();
    let file = create(&vfs, "/file", &[1; 100_000]);
    sync_dir(&vfs, ROOT);
    file.set_len(8192).unwrap();
    assert_eq!(available(), (1 << 20) - 8192);
    vfs.hard_link(Path::new("/file"), Path::new("/link")).unwrap();
    vfs.remove(Path::new("/file")).unwrap();
    vfs.remove(Path::new("/link")).unwrap();
    assert_eq!(available(), (1 << 20) - 8192, "an open handle keeps it");
    drop(file);
    assert_eq!(available(), 1 << 20);
}

#[test]
fn allocated_space_can_be_written_on_a_full_file_system() {
    let vfs = MemVfs::new();
    vfs.set_capacity_bytes(Some(65_536));
    let file = create(&vfs, "/file", b"");
    assert_eq!(file.allocate(65_537).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.allocate(65_536).unwrap();
    let other = vfs.open_file(Path::new("/other"), OpenMode::CreateNew).unwrap();
    assert_eq!(other.write_at(b"x", 0).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.write_at(&[1; 65_536], 0).unwrap();
    assert_eq!(vfs.kill().available_bytes(Path::new(ROOT)).unwrap(), 0);
}

#[test]
fn paths_have_one_spelling() {
    let vfs = MemVfs::new();
    vfs.create_dir_all(Path::new("/a/b")).unwrap();
    let _file = create(&vfs, "a/./b/../b/file", b"x");
    assert_eq!(read(&vfs, "/a/b/file").unwrap(), b"x");
}

#[test]
fn crash_images_of_a_busy_file_system_are_consistent_cuts() {
    let vfs = MemVfs::new();
    let (first, second) = (create(&vfs, "/first", b""), create(&vfs, "/second", b""));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for offset in 0..2_000 {
                first.write_at(b"x", offset).unwrap();
                second.write_at(b"x", offset).unwrap();
            }
        });
        for _ in 0..100 {
            let crashed = vfs.crash(&CrashPlan::KEEP_ALL);
            let (first, second) = (read(&crashed, "/first").unwrap(), read(&crashed, "/second").unwrap());
            assert!(first.len() == second.len() || first.len() == second.len() + 1);
        }
    });
}

/// A durable file of three sectors of zeros, each of which was overwritten since, under a name that
/// was also given since.
fn three_pending_writes() -> (MemVfs, Vec<PendingChange>) {
    let (vfs, file) = durable(&[b'.'; 1536]);
    for sector in 0..3 {
        file.write_at(&[b'a' + sector as u8; 512], 512 * sector).unwrap();
    }
    vfs.hard_link(Path::new("/file"), Path::new("/link")).unwrap();
    let pending = vfs.pending();
    (vfs, pending)
}

/// The first byte of each sector.
fn sectors(vfs: &MemVfs, data: Survival) -> String {
    let bytes = read(&vfs.crash(&plan(0, data, Tail::Cut)), "/file").unwrap();
    bytes.chunks(512).map(|sector| sector[0] as char).collect()
}

#[test]
fn pending_changes_are_listed_in_their_order() {
    let (vfs, pending) = three_pending_writes();
    let kinds: Vec<PendingKind> = pending.iter().map(|change| change.kind).collect();
    let write = |offset| PendingKind::Write { offset, len: 512 };
    assert_eq!(kinds, [write(0), write(512), write(1024), PendingKind::Name]);
    assert!(pending.windows(2).all(|pair| pair[0].number < pair[1].number));
    assert_eq!(vfs.kill().pending(), pending, "a killed process leaves the same to the page cache");
    assert!(vfs.crash(&CrashPlan::KEEP_ALL).pending().is_empty());
}

#[test]
fn each_pending_change_can_be_lost_or_kept_alone_or_be_the_last() {
    let (vfs, pending) = three_pending_writes();
    let number = |index: usize| pending[index].number;
    assert_eq!(sectors(&vfs, Survival::Without(number(1))), "a.c");
    assert_eq!(sectors(&vfs, Survival::Only(number(1))), ".b.");
    assert_eq!(sectors(&vfs, Survival::Before(number(2))), "ab.");
    assert_eq!(sectors(&vfs, Survival::Without(number(3))), "abc", "the last is a name");
    assert_eq!(sectors(&vfs, Survival::Only(number(3))), "...");
    let has_link = |names| {
        let crashed = vfs.crash(&CrashPlan { names, ..CrashPlan::KEEP_ALL });
        crashed.metadata(Path::new("/link")).unwrap().is_some()
    };
    assert!(has_link(Survival::Only(number(3))) && has_link(Survival::Without(number(0))));
    assert!(!has_link(Survival::Without(number(3))) && !has_link(Survival::Before(number(3))));
}

#[test]
fn a_chosen_write_is_torn_at_a_sector() {
    let (vfs, file) = durable(&[b'.'; 1536]);
    file.write_at(&[b'a'; 100], 0).unwrap();
    file.write_at(&[b'b'; 1536], 0).unwrap();
    file.write_at(&[b'c'; 512], 1024).unwrap();
    let number = vfs.pending()[1].number;
    let torn = |bytes| sectors(&vfs, Survival::Torn { number, bytes });
    assert_eq!(torn(0), "a..");
    assert_eq!(torn(512), "b..");
    assert_eq!(torn(1100), "bb.", "later writes are lost");
}

#[test]
fn a_lost_truncation_leaves_the_old_end_and_one_kept_alone_the_new() {
    let (vfs, file) = durable(&[b'.'; 1536]);
    file.write_at(&[b'a'; 512], 0).unwrap();
    file.set_len(1024).unwrap();
    let number = vfs.pending()[1].number;
    assert_eq!(vfs.pending()[1].kind, PendingKind::Length);
    assert_eq!(sectors(&vfs, Survival::Without(number)), "a..");
    assert_eq!(sectors(&vfs, Survival::Only(number)), "..");
}

#[test]
fn stores_to_mapped_bytes_are_pending_and_may_outlive_a_loss_of_power() {
    let (vfs, file) = durable(&[b'.'; 8192]);
    let mut pieces = file.map(0, 4096, 2).unwrap();
    pieces[1].write(0, b"stored");
    let number = vfs.pending()[0].number;
    assert_eq!(vfs.pending()[0].kind, PendingKind::Store { offset: 4096, len: 6 });
    let left = |data| read(&vfs.crash(&plan(0, data, Tail::Cut)), "/file").unwrap()[4096..4102].to_vec();
    assert_eq!(left(Survival::Nothing), b"......");
    assert_eq!(left(Survival::Only(number)), b"stored");
    for _ in 0..1000 {
        pieces[0].set_word(0, u64::from_le_bytes(*b"counting"));
    }
    assert!(vfs.pending().len() <= 100, "{} stores are remembered", vfs.pending().len());
    assert_eq!(left(Survival::Nothing), b"stored", "what was too old to be remembered was written back");
    file.sync_data().unwrap();
    assert!(vfs.pending().is_empty());
}

#[test]
fn file_systems_that_look_the_same_have_the_same_fingerprint() {
    let (vfs, _) = three_pending_writes();
    let all = vfs.crash(&CrashPlan::KEEP_ALL);
    assert_eq!(all.fingerprint(), vfs.fingerprint());
    let none = vfs.crash(&CrashPlan::LOSE_UNSYNCED);
    assert_ne!(none.fingerprint(), vfs.fingerprint());
    let named = vfs.crash(&CrashPlan { names: Survival::Nothing, ..CrashPlan::KEEP_ALL });
    assert_ne!(named.fingerprint(), vfs.fingerprint());
}

//! Threads open, use and destroy one store on a real file system: at no moment do two of them have
//! it open.

use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Error, KeyspaceOptions, Options};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const THREADS: usize = 4;
const TURNS: usize = 30;

pub fn run(visit: &Visit, rng: &mut Rng) {
    let root = crate::files::dir_in_memory().unwrap_or_else(|error| panic!("{error}"));
    let path = root.path().join("store");
    let (holders, opened) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let (mut rng, path, holders, opened) = (rng.fork(), &path, &holders, &opened);
            scope.spawn(move || {
                for _ in 0..TURNS {
                    let keyspace = KeyspaceOptions::new().layout(visit.layout);
                    let options = Options::new().memory_budget(4 << 20).background_threads(1);
                    let options = options.default_keyspace(keyspace);
                    if rng.below(3) == 0 {
                        let destroyed = cantle::Db::destroy(path, options);
                        assert!(matches!(destroyed, Ok(()) | Err(Error::Locked { .. })), "{destroyed:?}");
                        continue;
                    }
                    match options.create_if_missing(rng.below(2) == 0).open(path) {
                        Ok(db) => {
                            assert_eq!(holders.fetch_add(1, SeqCst), 0, "two have the store");
                            opened.fetch_add(1, SeqCst);
                            db.put("key", "value").unwrap_or_else(|error| panic!("{error}"));
                            holders.fetch_sub(1, SeqCst);
                            db.close().unwrap_or_else(|error| panic!("{error}"));
                        }
                        Err(Error::Locked { .. } | Error::NotFound { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    visit.count("openings of a store that others open and destroy", opened.load(SeqCst));
}

//! Checks the example of `docs/format/files.md` against a store.

use super::Db;
use crate::db::Options;
use crate::sync::Arc;
use crate::vfs::{MemVfs, Vfs};
use std::path::Path;

#[test]
fn the_documented_directory_is_what_is_left_behind() -> crate::Result<()> {
    let vfs = Arc::new(MemVfs::new());
    let open =
        || -> crate::Result<Db> { Options::new().vfs(vfs.clone()).memory_budget(1 << 20).open("store") };
    let db = open()?;
    db.put("app/1", "one")?;
    db.compact_range(..)?;
    db.put("app/2", "two")?;
    db.close()?;
    drop(db);
    let mut names = vfs.list(Path::new("store")).unwrap();
    names.sort_unstable();
    let listing = names.join("\n");
    let page = include_str!("../../docs/format/files.md");
    assert!(page.contains(&format!("```text\n{listing}\n```")), "the page should have:\n{listing}");
    Ok(())
}

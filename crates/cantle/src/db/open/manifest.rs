//! Reads the part of a manifest that counts.

use crate::layouts;
use crate::manifest::{Replayed, replay};
use crate::substrate::page_cache::{Witnessed, outlived, witnessed};
use crate::types::error::{Error, Result};
use crate::vfs::Vfs;
use std::path::Path;

/// Reads the manifest. Includes the edits after its last checkpoint, and returns true, if the page
/// cache outlived their writer.
pub(crate) fn read_manifest(vfs: &dyn Vfs, path: &Path, manifest_path: &Path) -> Result<(Replayed, bool)> {
    let witnessed = &witnessed(vfs, path)?;
    let intact = witnessed.is_intact;
    match replay(vfs, manifest_path, layouts::new_state, true) {
        Ok(mut all) => {
            if intact && let Some(damage) = all.gap.take() {
                return Err(damage);
            }
            check_whole(manifest_path, &all, witnessed)?;
            if outlived(vfs, path, all.state.start.epoch)? {
                return Ok((all, true));
            }
            if all.provisional_bytes == 0 {
                return Ok((all, false));
            }
        }
        // A power failure may leave anything after the checkpoint. Without a power failure it is
        // damage, and writes acknowledged since the checkpoint must not vanish unnoticed.
        Err(error) if intact || !error.is_corruption() => return Err(error),
        Err(_) => {}
    }
    let durable = replay(vfs, manifest_path, layouts::new_state, false)?;
    check_whole(manifest_path, &durable, witnessed)?;
    Ok((durable, false))
}

/// Fails if there was more of the manifest than there is. A manifest that was cut, or is an old
/// copy, looks like one after a power failure. But it is damage if the store was closed after it,
/// or if nothing can have been lost.
fn check_whole(path: &Path, replayed: &Replayed, witnessed: &Witnessed) -> Result<()> {
    let Replayed { header, end, state, .. } = replayed;
    let Witnessed { epoch, is_intact, closed } = witnessed;
    let behind =
        |what: String| Err(Error::corruption(path, *end, format!("the manifest ends too early: {what}")));
    if closed.store == header.store && closed.manifest > header.file {
        return behind(format!("there was a later one, number {}", closed.manifest));
    }
    if closed.store == header.store && closed.manifest == header.file && closed.bytes > *end {
        return behind(format!("it had {} bytes when the store was closed", closed.bytes));
    }
    // An epoch is recorded in `PAGECACHE` before it is in the manifest.
    if *is_intact && *epoch > state.start.epoch.saturating_add(1) {
        return behind(format!("epoch {epoch} has begun since epoch {}", state.start.epoch));
    }
    Ok(())
}

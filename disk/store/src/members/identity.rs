//! Block devices by what is on them. The kernel names drives such as /dev/sdb in the order in which it finds them, so a member may
//! be another device after a restart. Its identity is in its superblock or array descriptor.

use super::Opener;
use super::{Access, MemberDevice};
use crate::error::StoreError;
use std::fs;
use std::path::{Path, PathBuf};
use tonearm_format::HEADER_AREA_BYTES;

/// Bytes of the sectors in which the kernel counts the size of a device.
const SECTOR_BYTES: u64 = 512;

impl Opener<'_> {
    /// The only block device of this machine that is the member which `look` recognises, opened, with what `look` returned.
    ///
    /// # Errors
    /// When there are two, or the only ones are in use or otherwise cannot be opened: then nothing is wrong with the member.
    pub(super) fn find_device<T>(
        &self,
        look: impl Fn(&Opener<'_>, &MemberDevice) -> Option<T>,
    ) -> Result<Option<(MemberDevice, T)>, StoreError> {
        self.find_among(block_devices(Path::new("/sys/class/block")), look)
    }

    pub(super) fn find_among<T>(
        &self,
        paths: Vec<PathBuf>,
        look: impl Fn(&Opener<'_>, &MemberDevice) -> Option<T>,
    ) -> Result<Option<(MemberDevice, T)>, StoreError> {
        // Without a lock: most devices belong to other programs, and some are members that this process has open.
        let peek = Opener {
            access: Access::Peek,
            ..*self
        };
        let mut found: Option<(MemberDevice, T)> = None;
        let mut refused = None;
        for path in paths {
            let Ok(device) = peek.open_member(&path) else {
                continue;
            };
            let known = look(&peek, &device);
            device.device.release();
            let Some(known) = known else { continue };
            match (self.open_member(&path), &found) {
                (Ok(second), Some((first, _))) => {
                    second.device.release();
                    first.device.release();
                    return Err(StoreError::FoundTwice {
                        first: first.path.clone(),
                        second: second.path.clone(),
                    });
                }
                (Ok(device), None) => found = Some((device, known)),
                // One path of several to a drive is held by the kernel's device over them.
                (Err(error), _) => refused = Some(error),
            }
        }
        match (found, refused) {
            (None, Some(error)) => Err(error),
            (found, _) => Ok(found),
        }
    }
}

/// The block devices that `class` lists, if they can hold a member, in the order of their names.
fn block_devices(class: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    let is_large = |entry: &fs::DirEntry| {
        let sectors = fs::read_to_string(entry.path().join("size"));
        let sectors = sectors
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        sectors.is_some_and(|sectors| sectors > HEADER_AREA_BYTES / SECTOR_BYTES)
    };
    // The kernel writes a slash in a name as an exclamation mark.
    let path = |entry: fs::DirEntry| {
        Path::new("/dev").join(entry.file_name().to_string_lossy().replace('!', "/"))
    };
    let mut paths: Vec<PathBuf> = entries.filter(is_large).map(path).collect();
    paths.sort();
    paths
}

#[cfg(test)]
#[path = "identity_test.rs"]
mod identity_test;

//! The space that a store takes below it.

use super::protocol::{ArrayInfo, MemberInfo};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;

/// Bytes of the blocks in which stat(2) counts.
const STAT_BLOCK_BYTES: u64 = 512;

/// Bytes that the files of a store take in their file systems, with the log. `None` where a member is a device, or not there.
pub fn used_bytes(members: &[MemberInfo], array: Option<&ArrayInfo>) -> Option<u64> {
    let mut paths: Vec<&str> = match array {
        // The second member is the array itself.
        Some(array) => array
            .members
            .iter()
            .map(|member| member.path.as_str())
            .collect(),
        None => members
            .iter()
            .skip(1)
            .map(|member| member.path.as_str())
            .collect(),
    };
    paths.extend(members.first().map(|member| member.path.as_str()));
    let mut seen = BTreeSet::new();
    let mut bytes = 0;
    for path in paths {
        let found = std::fs::metadata(path)
            .ok()
            .filter(|found| found.is_file())?;
        if seen.insert((found.dev(), found.ino())) {
            bytes += found.blocks() * STAT_BLOCK_BYTES;
        }
    }
    Some(bytes)
}

#[cfg(test)]
#[path = "space_test.rs"]
mod space_test;

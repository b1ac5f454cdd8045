//! The space that a store takes below it.

use super::protocol::ArrayInfo;
use tonearm_store::Executor;

/// Bytes that the files of the store that `executor` has open take in their file systems, with the log. `None` where a member is a
/// device, or not there.
///
/// Only open descriptors are asked: a path may lead through the store's own mount, or to a server that does not answer, and the
/// engine's thread must not wait for either.
pub fn used_bytes(executor: &Executor, array: Option<&ArrayInfo>) -> Option<u64> {
    let all_there = array.is_none_or(|array| {
        let mut members = array.members.iter();
        members.all(|member| matches!(member.state.as_str(), "in use" | "rebuilding"))
    });
    executor.used_bytes().filter(|_| all_there)
}

#[cfg(test)]
#[path = "space_test.rs"]
mod space_test;

//! What /proc says about the processes that ask. The kernel names the thread that asks, which waits for the answer, so it is true
//! until then.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;

/// Removes and changes the files of others.
const CAP_FOWNER: u64 = 1 << 3;

/// A process or thread: its number, and when it began in clock ticks, because numbers are used again.
pub(crate) type Process = (u32, u64);

/// A process or thread.
pub(crate) struct Found {
    /// When it began.
    pub began: u64,
    /// The process above it.
    pub parent: u32,
    /// Who may look into it: its user, or root once it has got rights that its user does not have.
    pub watched_by: u32,
}

/// A process or thread that is there.
pub(crate) fn look_up(process: u32) -> Option<Found> {
    let mut file = File::open(format!("/proc/{process}/stat")).ok()?;
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let watched_by = file.metadata().ok()?.uid();
    // The name stands in parentheses, and may have any characters.
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let began = fields.nth(17)?.parse().ok()?;
    Some(Found {
        began,
        parent,
        watched_by,
    })
}

pub(crate) fn is_there((process, began): Process) -> bool {
    look_up(process).is_some_and(|found| found.began == began)
}

/// The process of a thread.
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    status(thread, "Tgid:")?.parse().ok()
}

/// The capabilities of a thread that have effect.
pub(crate) fn capabilities(thread: u32) -> Option<u64> {
    u64::from_str_radix(&status(thread, "CapEff:")?, 16).ok()
}

/// True when a thread may remove the files of others in a directory with the sticky bit. In a user namespace of its own it has
/// capabilities that do not count here.
pub(crate) fn is_owner_of_all(thread: u32) -> bool {
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/user")).ok();
    let own = namespace("self");
    own.is_some()
        && own == namespace(&thread.to_string())
        && capabilities(thread).is_some_and(|has| has & CAP_FOWNER != 0)
}

fn status(thread: u32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().to_string())
}

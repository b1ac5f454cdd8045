//! Which processes belong to units: those that have begun one with their descendants, and these.
//!
//! The kernel tells the thread that asks. It waits for the answer, so what /proc says about it and about the processes above it
//! is true until then. While no such unit is open, nothing is looked up.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most processes that are remembered.
const KNOWN_MAX: usize = 4096;
/// Most processes from one up to the first one.
const DEPTH_MAX: usize = 512;

/// A process or thread: its number, and when it began in clock ticks, because numbers are used again.
type Process = (u32, u64);

/// The processes of units.
#[derive(Default)]
pub(crate) struct Members {
    /// There is something to look up.
    active: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Processes that have begun a unit for themselves and their descendants.
    roots: BTreeMap<Process, u64>,
    /// What was found for others.
    found: BTreeMap<Process, Option<u64>>,
    /// Processes whose unit was aborted under them. They may have lost the processes above them.
    left: BTreeMap<Process, u64>,
}

impl Members {
    /// The unit of the thread `thread`, by its processes.
    pub fn unit_of(&self, thread: u32) -> Option<u64> {
        if !self.active.load(Ordering::Acquire) || thread == 0 {
            return None;
        }
        let (began, parent) = look_up(thread)?;
        let mut known = self.known();
        if let Some(unit) = known.get((thread, began)) {
            return unit;
        }
        // A thread has the parent of its process, which may itself have begun the unit.
        let process = process_of(thread).filter(|process| *process != thread);
        let unit = known.search(process.unwrap_or(parent));
        if known.found.len() >= KNOWN_MAX {
            known.forget();
        }
        known.found.insert((thread, began), unit);
        unit
    }

    /// The process of `thread` has begun `unit` for itself and its descendants. False when it cannot be found.
    pub fn begin(&self, thread: u32, unit: u64) -> bool {
        let process = process_of(thread);
        let root = process.and_then(|process| Some((process, look_up(process)?.0)));
        let Some(root) = root else { return false };
        let mut known = self.known();
        known.found.retain(|_, of| of.is_some());
        known.roots.insert(root, unit);
        self.active.store(true, Ordering::Release);
        true
    }

    /// The unit has ended. If `left` its processes may go on, and do not know that.
    pub fn end(&self, unit: u64, left: bool) {
        let mut known = self.known();
        let roots: Vec<u32> = known
            .roots
            .extract_if(.., |_, of| *of == unit)
            .map(|((process, _), _)| process)
            .collect();
        let of_it = known.found.extract_if(.., |_, of| *of == Some(unit));
        let of_it: Vec<Process> = of_it.map(|(process, _)| process).collect();
        if left {
            // The process that has begun the unit knows its end, with all its threads.
            let knows = |thread: u32| process_of(thread).is_none_or(|of| roots.contains(&of));
            let others = of_it.into_iter().filter(|(thread, _)| !knows(*thread));
            known.left.extend(others.map(|process| (process, unit)));
        }
        known.left.retain(|process, _| is_there(*process));
        while known.left.len() > KNOWN_MAX {
            known.left.pop_first();
        }
        let is_active = !known.roots.is_empty() || !known.left.is_empty();
        self.active.store(is_active, Ordering::Release);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // No state is left half changed by a panic.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Makes room for others: processes of units are remembered while they are there.
    fn forget(&mut self) {
        self.found
            .retain(|process, unit| unit.is_some() && is_there(*process));
        if self.found.len() >= KNOWN_MAX {
            self.found.clear();
        }
    }

    fn get(&self, process: Process) -> Option<Option<u64>> {
        let begun = self.roots.get(&process).or_else(|| self.left.get(&process));
        begun
            .map(|unit| Some(*unit))
            .or_else(|| self.found.get(&process).copied())
    }

    /// The unit of a process, or of one above it.
    fn search(&self, mut process: u32) -> Option<u64> {
        for _ in 0..DEPTH_MAX {
            let (began, parent) = look_up(process)?;
            if let Some(unit) = self.get((process, began)) {
                return unit;
            }
            process = parent;
        }
        None
    }
}

fn is_there((process, began): Process) -> bool {
    look_up(process).is_some_and(|(now, _)| now == began)
}

/// When a process or thread began, and the process above it.
fn look_up(process: u32) -> Option<(u64, u32)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name stands in parentheses, and may have any characters.
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    let began = fields.nth(17)?.parse().ok()?;
    Some((began, parent))
}

/// The process of a thread.
fn process_of(thread: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, id};

    /// A process, its threads and its children belong to its unit; no others do, and not for longer.
    #[test]
    fn a_process_belongs_to_the_unit_of_one_above_it() {
        let members = Members::default();
        assert_eq!(members.unit_of(id()), None);
        assert!(members.begin(id(), 7));
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let of = |process: u32| members.unit_of(process);
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_eq!(
            (of(id()), of(child.id()), of(thread)),
            (Some(7), Some(7), Some(7))
        );
        assert_eq!((of(child.id()), of(1), of(0)), (Some(7), None, None));
        // Its child goes on behind an aborted unit, and is not taken for another process.
        members.end(7, true);
        assert_eq!((of(child.id()), of(thread)), (Some(7), None));
        child.kill().expect("kill");
        child.wait().expect("wait");
        members.end(8, false);
        assert!(!members.active.load(Ordering::Acquire));
        assert!(!members.begin(u32::MAX, 9));
    }
}

//! Which processes belong to units: those that have begun one with their descendants, and these, while they ask as the same user and
//! group and with no further capabilities. A program that has become another user, by its set-user-ID bit or otherwise, does not
//! act for the user of the unit: what it does happens at once.
//!
//! While no such unit is open, nothing is looked up.

use crate::processes::{Found, Process, capabilities, is_there, look_up, process_of};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most processes that are remembered.
const KNOWN_MAX: usize = 4096;
/// Most processes from one up to the first one.
const DEPTH_MAX: usize = 512;

/// The processes of units.
#[derive(Default)]
pub(crate) struct Members {
    /// There is something to look up.
    active: AtomicBool,
    known: Mutex<Known>,
}

/// User and group of a request.
pub(crate) type User = (u32, u32);

/// A unit, with the user and group that have begun it and their capabilities.
#[derive(Clone, Copy)]
struct Of {
    unit: u64,
    by: User,
    capabilities: u64,
}

#[derive(Default)]
struct Known {
    /// Processes that have begun a unit for themselves and their descendants.
    roots: BTreeMap<Process, Of>,
    /// What was found for others.
    found: BTreeMap<Process, Option<Of>>,
    /// Processes whose unit was aborted under them. They may have lost the processes above them.
    left: BTreeMap<Process, Of>,
}

impl Members {
    /// The unit of the thread `thread`, by its processes. It asks as `by`.
    pub fn unit_of(&self, thread: u32, by: User) -> Option<u64> {
        if !self.active.load(Ordering::Acquire) || thread == 0 {
            return None;
        }
        let found = look_up(thread)?;
        let of = self.search(thread, &found)?;
        let gains = || capabilities(thread).is_none_or(|has| has & !of.capabilities != 0);
        let is_member = of.by == by && (found.watched_by == by.0 || !gains());
        is_member.then_some(of.unit)
    }

    fn search(&self, thread: u32, found: &Found) -> Option<Of> {
        let mut known = self.known();
        if let Some(of) = known.get((thread, found.began)) {
            return of;
        }
        // A thread has the parent of its process, which may itself have begun the unit.
        let process = process_of(thread).filter(|process| *process != thread);
        let of = known.search(process.unwrap_or(found.parent));
        if known.found.len() >= KNOWN_MAX {
            known.forget();
        }
        known.found.insert((thread, found.began), of);
        of
    }

    /// The process of `thread` has begun `unit` as `by` for itself and its descendants. False when it cannot be found.
    pub fn begin(&self, thread: u32, unit: u64, by: User) -> bool {
        let process = process_of(thread);
        let root = process.and_then(|process| Some((process, look_up(process)?.began)));
        let (Some(root), Some(capabilities)) = (root, capabilities(thread)) else {
            return false;
        };
        let of = Of {
            unit,
            by,
            capabilities,
        };
        let mut known = self.known();
        known.found.retain(|_, of| of.is_some());
        known.roots.insert(root, of);
        self.active.store(true, Ordering::Release);
        true
    }

    /// The unit has ended. If `left` its processes may go on, and do not know that.
    pub fn end(&self, unit: u64, left: bool) {
        let mut known = self.known();
        let roots: Vec<u32> = known
            .roots
            .extract_if(.., |_, of| of.unit == unit)
            .map(|((process, _), _)| process)
            .collect();
        let is_of_it = |of: &Option<Of>| of.is_some_and(|of| of.unit == unit);
        let of_it = known.found.extract_if(.., |_, of| is_of_it(of));
        let of_it: Vec<(Process, Option<Of>)> = of_it.collect();
        if left {
            // The process that has begun the unit knows its end, with all its threads.
            let knows = |thread: u32| process_of(thread).is_none_or(|of| roots.contains(&of));
            for (process, of) in of_it {
                if let Some(of) = of.filter(|_| !knows(process.0)) {
                    known.left.insert(process, of);
                }
            }
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
            .retain(|process, of| of.is_some() && is_there(*process));
        if self.found.len() >= KNOWN_MAX {
            self.found.clear();
        }
    }

    fn get(&self, process: Process) -> Option<Option<Of>> {
        let begun = self.roots.get(&process).or_else(|| self.left.get(&process));
        begun
            .map(|of| Some(*of))
            .or_else(|| self.found.get(&process).copied())
    }

    /// The unit of a process, or of one above it.
    fn search(&self, mut process: u32) -> Option<Of> {
        for _ in 0..DEPTH_MAX {
            let found = look_up(process)?;
            if let Some(of) = self.get((process, found.began)) {
                return of;
            }
            process = found.parent;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{getegid, geteuid};
    use std::process::{Command, id};

    fn user() -> User {
        (geteuid().as_raw(), getegid().as_raw())
    }

    /// A process, its threads and its children belong to its unit; no others do, and not for longer.
    #[test]
    fn a_process_belongs_to_the_unit_of_one_above_it() {
        let members = Members::default();
        let by = user();
        assert_eq!(members.unit_of(id(), by), None);
        assert!(members.begin(id(), 7, by));
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let of = |process: u32| members.unit_of(process, by);
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_eq!(
            (of(id()), of(child.id()), of(thread)),
            (Some(7), Some(7), Some(7))
        );
        assert_eq!((of(child.id()), of(1), of(0)), (Some(7), None, None));
        // Its child goes on after an aborted unit, and is not taken for another process.
        members.end(7, true);
        assert_eq!((of(child.id()), of(thread)), (Some(7), None));
        child.kill().expect("kill");
        child.wait().expect("wait");
        members.end(8, false);
        assert!(!members.active.load(Ordering::Acquire));
        assert!(!members.begin(u32::MAX, 9, by));
    }

    /// Programs that have become another user or group do not act for the one who has begun the unit, nor do their descendants.
    #[test]
    fn other_credentials_are_no_member() {
        let members = Members::default();
        let (uid, gid) = user();
        assert!(members.begin(id(), 7, (uid, gid)));
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep");
        let of = |by: User| members.unit_of(child.id(), by);
        for round in 0..2 {
            assert_eq!(of((uid + 1, gid)), None, "round {round}");
            assert_eq!(of((uid, gid + 1)), None, "round {round}");
            assert_eq!(of((uid, gid)), Some(7), "round {round}");
        }
        // A process of another user does not get the errors of an aborted unit either.
        members.end(7, true);
        assert_eq!((of((uid, gid)), of((uid + 1, gid))), (Some(7), None));
        child.kill().expect("kill");
        child.wait().expect("wait");
    }
}

//! Objects of an archive, fetched ahead of their use.

use super::patient::Reader;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use tonearm_archive::{Plan, PlannedObject};
use tonearm_terminal::progress::{Progress, Unit};

/// Threads that fetch objects; each has one object ready and one under way.
const FETCHERS: usize = 4;
/// Objects after which it is noted how far a restore is.
const NOTE_EVERY: usize = 16;
/// Bytes of all payloads that are fetched at once. Anybody who can write to the archive chooses how large they are. A larger one is
/// fetched alone.
const BUDGET_BYTES: u64 = 512 << 20;
/// Name and payload of an object, and the memory that it has.
type Fetched = anyhow::Result<(String, Vec<u8>, Share)>;

/// The payloads of the objects, in order. Several are fetched at the same time. The memory of one is given back when its
/// [`Share`] is dropped.
pub(super) fn fetch(
    bucket: &Reader,
    objects: &[PlannedObject],
) -> impl Iterator<Item = Fetched> + use<> {
    let fetchers = FETCHERS.min(objects.len().max(1));
    let budget = Arc::new(Budget::new(BUDGET_BYTES));
    let queues: Vec<Receiver<Fetched>> = (0..fetchers)
        .map(|first| {
            let (sender, receiver) = sync_channel(1);
            let own = objects.iter().cloned().enumerate();
            let own: Vec<_> = own.skip(first).step_by(fetchers).collect();
            let (bucket, budget) = (bucket.clone(), budget.clone());
            std::thread::spawn(move || {
                for (turn, mut object) in own {
                    let measured = bucket.block_on(object.measure(&bucket));
                    // One that cannot be measured takes its turn, too.
                    let Some(share) = budget.take(turn, object.memory_bytes()) else {
                        return;
                    };
                    let fetched = measured.and_then(|()| bucket.block_on(object.fetch(&bucket)));
                    let fetched = fetched.map(|payload| (object.name, payload, share));
                    // The restore may have ended with an error.
                    if sender.send(fetched.map_err(Into::into)).is_err() {
                        return;
                    }
                }
            });
            receiver
        })
        .collect();
    let (count, end) = (objects.len(), AtEnd(budget));
    (0..count).map(move |index| {
        let _ = &end;
        let received = queues[index % fetchers].recv();
        received.unwrap_or_else(|_| Err(anyhow::anyhow!("a thread that fetches has ended")))
    })
}

/// Memory for payloads. It is given in the order in which they are used: so those that have some are used, and give it back,
/// before one that waits.
struct Budget {
    most: u64,
    state: Mutex<BudgetState>,
    changed: Condvar,
}

#[derive(Default)]
struct BudgetState {
    /// Whose turn it is.
    turn: usize,
    used: u64,
    is_over: bool,
}

/// A part of a budget.
pub(super) struct Share(Arc<Budget>, u64);

/// Wakes those that wait for a budget that nobody uses any more.
struct AtEnd(Arc<Budget>);

impl Budget {
    fn new(most: u64) -> Self {
        Self {
            most,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut BudgetState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Waits for `bytes`, or for all if that is less, when those before `turn` have theirs. `None` when nobody wants them any
    /// more.
    fn take(self: &Arc<Self>, turn: usize, bytes: u64) -> Option<Share> {
        let bytes = bytes.min(self.most);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |state: &mut BudgetState| {
            !state.is_over && (state.turn != turn || state.used + bytes > self.most)
        };
        let state = self.changed.wait_while(state, waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.is_over {
            return None;
        }
        (state.turn, state.used) = (turn + 1, state.used + bytes);
        self.changed.notify_all();
        Some(Share(self.clone(), bytes))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.change(|state| state.used -= self.1);
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        self.0.change(|state| state.is_over = true);
    }
}

/// Applies the objects of `plan` after the first `done` to `state`, in order. When the last argument of `apply` is true, what is
/// applied must be on the disk when it returns: then `noted` notes how many objects that are.
pub(super) fn apply<T>(
    bucket: &Reader,
    plan: &Plan,
    mut done: usize,
    mut state: T,
    apply: impl Fn(T, String, Vec<u8>, bool) -> anyhow::Result<T>,
    noted: impl Fn(usize) -> anyhow::Result<()>,
) -> anyhow::Result<T> {
    let mut bar = Progress::new("restoring", Unit::Count);
    let total = plan.objects.len() as u64;
    for fetched in fetch(bucket, &plan.objects[done..]) {
        let (name, payload, share) = fetched?;
        done += 1;
        let is_noted = done.is_multiple_of(NOTE_EVERY);
        state = apply(state, name, payload, is_noted)?;
        drop(share);
        if is_noted {
            noted(done)?;
        }
        bar.at(done as u64, total);
    }
    Ok(state)
}

#[cfg(test)]
#[path = "fetch_test.rs"]
mod fetch_test;

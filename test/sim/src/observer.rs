//! Finds out which operation has made which commit, by reading the store's sequence numbers before and after each poll.
//!
//! One thread runs all tasks, so a commit that appears while a future is polled belongs to that future. The observer
//! also checks that numbers have no gaps, that only operations that change something get one, and that appended >=
//! flushed >= durable.

use crate::model::{Effect, Model};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use tonearm_disk::Disk;

/// The model of a run, shared by its clients, with the number of the last commit that was seen.
#[derive(Clone)]
pub struct Observer {
    disk: Disk,
    /// The model.
    pub model: Rc<RefCell<Model>>,
    appended: Rc<Cell<u64>>,
}

impl Observer {
    /// Observes `disk`, which has just been opened.
    pub fn new(disk: &Disk, model: &Rc<RefCell<Model>>) -> Self {
        Self {
            disk: disk.clone(),
            model: model.clone(),
            appended: Rc::new(Cell::new(disk.stats().appended_lsn)),
        }
    }

    /// Runs `work`, whose commits have the effects `effects` in this order. Returns its result, the effects without a
    /// commit, and the number of the last commit.
    pub async fn watch<T>(
        &self,
        effects: Vec<Effect>,
        work: impl Future<Output = T>,
    ) -> (T, usize, u64) {
        let mut effects = VecDeque::from(effects);
        let mut last = 0;
        let mut work = Box::pin(work);
        let result = std::future::poll_fn(|context| {
            self.look(0);
            let poll = work.as_mut().poll(context);
            let commits = self.disk.stats().appended_lsn - self.appended.get();
            for _ in 0..commits {
                let mut model = self.model.borrow_mut();
                match effects.pop_front() {
                    Some(effect) => last = model.commit(effect),
                    None => model.violate("an operation has made one commit too many".into()),
                }
            }
            self.look(commits);
            poll
        })
        .await;
        (result, effects.len(), last)
    }

    /// Checks the numbers after `commits` new commits.
    fn look(&self, commits: u64) {
        let stats = self.disk.stats();
        let expected = self.appended.get() + commits;
        if stats.appended_lsn != expected {
            let what = format!("commit {} where {expected} is expected", stats.appended_lsn);
            self.model.borrow_mut().violate(what);
        }
        if stats.durable_lsn > stats.flushed_lsn || stats.flushed_lsn > stats.appended_lsn {
            self.model.borrow_mut().violate(format!(
                "appended {}, flushed {}, durable {}",
                stats.appended_lsn, stats.flushed_lsn, stats.durable_lsn
            ));
        }
        self.appended.set(stats.appended_lsn);
    }
}

//! TPC-B as HyLog 5.1 simulates it: each transaction updates a random page.

use crate::experiment::Random;
use tonearm_workload::{Access, Pool, Pooled, Workload, WorkloadError};

/// Reads a random page and then writes it, without an end.
pub struct TpcB {
    random: Random,
    pages: u64,
    read: Option<u64>,
}

impl TpcB {
    /// Behind a pool of `pool` pages. What reaches the disk of a transaction is the read of a random page and the write of
    /// one that was read `pool` pages before.
    pub fn behind(pool: u64, pages: u64, random: Random) -> Pooled<Self> {
        let own = Self {
            random,
            pages,
            read: None,
        };
        Pooled::new(own, Pool::new(pool))
    }
}

impl Workload for TpcB {
    fn pages(&self) -> u64 {
        self.pages
    }

    fn next_access(&mut self) -> Result<Option<Access>, WorkloadError> {
        Ok(Some(match self.read.take() {
            Some(page) => Access::write(page),
            None => {
                let page = self.random.below(self.pages);
                self.read = Some(page);
                Access::read(page)
            }
        }))
    }
}

//! Requests of a workload in memory, so that several simulations have the same ones and they are made once.

use tonearm_workload::{Access, PageCounts, Workload, WorkloadError};

/// The first requests of a workload. Each takes 4 bytes.
pub struct Requests {
    pages: u64,
    /// The page times two, and one more for a write.
    all: Vec<u32>,
}

/// The requests again.
pub struct Replay<'a> {
    pages: u64,
    left: std::slice::Iter<'a, u32>,
}

impl Requests {
    /// The first `count` requests of `workload`, or all if it has fewer.
    ///
    /// # Panics
    /// When the workload fails, or has 2^31 pages or more.
    pub fn record<W: Workload>(mut workload: W, count: u64) -> Self {
        let pages = workload.pages();
        assert!(pages < 1 << 31, "31 bits number the pages");
        let mut next = || {
            workload
                .next_access()
                .expect("a generated workload goes on")
        };
        let all = (0..count).map_while(|_| next());
        let all = all.map(|access| (access.page as u32) << 1 | u32::from(access.write));
        Self {
            pages,
            all: all.collect(),
        }
    }

    /// The same requests from the first one on.
    pub fn replay(&self) -> Replay<'_> {
        Replay {
            pages: self.pages,
            left: self.all.iter(),
        }
    }

    /// The share of the writes that goes to the share `top` of the pages: those with the most writes.
    pub fn share_of_writes(&self, top: f64) -> f64 {
        let mut counts = PageCounts::default();
        let writes = self.all.iter().filter(|request| *request & 1 == 1);
        writes.for_each(|write| counts.add(u64::from(write >> 1)));
        counts.shares(self.pages, &[top])[0]
    }
}

impl Workload for Replay<'_> {
    fn pages(&self) -> u64 {
        self.pages
    }

    #[inline]
    fn next_access(&mut self) -> Result<Option<Access>, WorkloadError> {
        Ok(self.left.next().map(|request| Access {
            page: u64::from(request >> 1),
            write: request & 1 == 1,
            at: None,
        }))
    }
}

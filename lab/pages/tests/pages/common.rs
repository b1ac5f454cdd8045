//! Setups and streams of requests.

use tonearm_drive_file::DriveFile;
use tonearm_pages::{Layout, Setup, Simulation};
use tonearm_workload::{Access, Workload, WorkloadError};

/// Seeded random numbers.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)) * u128::from(bound)) >> 64) as u64
    }
}

/// Pages of which `hot` of 100 requests go to the first tenth: with 10, all pages are alike.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub pages: u64,
    pub hot: u64,
    /// Writes of 100 requests.
    pub writes: u64,
}

impl Load {
    pub fn page(&self, numbers: &mut Numbers) -> u32 {
        let tenth = self.pages / 10;
        let page = match numbers.below(100) < self.hot {
            true => numbers.below(tenth),
            false => tenth + numbers.below(self.pages - tenth),
        };
        page as u32
    }

    pub fn requests(self, seed: u64) -> Requests {
        Requests {
            load: self,
            numbers: Numbers::new(seed),
            left: u64::MAX,
        }
    }

    /// A simulation of `setup` under this load.
    pub fn on(self, setup: &Setup, seed: u64) -> Simulation<Requests> {
        Simulation::new(setup, self.requests(seed)).expect("a setup that works")
    }
}

pub struct Requests {
    load: Load,
    numbers: Numbers,
    pub left: u64,
}

impl Workload for Requests {
    fn pages(&self) -> u64 {
        self.load.pages
    }

    fn next_access(&mut self) -> Result<Option<Access>, WorkloadError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let page = u64::from(self.load.page(&mut self.numbers));
        let write = self.numbers.below(100) < self.load.writes;
        Ok(Some(match write {
            true => Access::write(page),
            false => Access::read(page),
        }))
    }
}

/// A small system: chunks of 64 KB, so that there are enough segments.
pub fn setup(layout: Layout, pages: u64, utilisation: f64) -> Setup {
    Setup {
        chunk_bytes: 64 << 10,
        utilisation,
        ..Setup::new(&DriveFile::of_library("hylog2003").spec, layout, pages)
    }
}

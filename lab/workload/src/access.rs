//! One access to a page, and what every workload offers.

use std::io;
use thiserror::Error;
use tonearm_base::Nanos;
use tonearm_trace::TraceError;

/// One access to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The page, from 0.
    pub page: u64,
    /// True for a write of the page, false for a read.
    pub write: bool,
    /// When the access is issued, if the workload has times: only traces with arrival times do.
    pub at: Option<Nanos>,
}

impl Access {
    /// A read without a time.
    pub const fn read(page: u64) -> Self {
        Self {
            page,
            write: false,
            at: None,
        }
    }

    /// A write without a time.
    pub const fn write(page: u64) -> Self {
        Self {
            page,
            write: true,
            at: None,
        }
    }
}

/// A source of page accesses.
pub trait Workload {
    /// Size of the page space. No access of the whole run is at or beyond this page.
    fn pages(&self) -> u64;

    /// The next access; none at the end.
    ///
    /// # Errors
    /// When a trace cannot be read on. Generated workloads have no errors.
    fn next_access(&mut self) -> Result<Option<Access>, WorkloadError>;
}

/// A workload that cannot be made, or cannot go on.
#[derive(Error, Debug)]
pub enum WorkloadError {
    /// The trace's file cannot be opened.
    #[error("cannot open the trace {name}: {source}")]
    Open {
        /// The trace's name, as given.
        name: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A line of the trace is wrong.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Nothing in the trace can be used.
    #[error("the trace {name} has no read and no write{}", of_device(*device))]
    Empty {
        /// The trace's name, as given.
        name: String,
        /// The only device that was asked for.
        device: Option<u32>,
    },
    /// A page size that does not suit traces.
    #[error(
        "pages of a trace have {bytes} bytes, which is no multiple of 512 from 512 to 16777216"
    )]
    PageBytes {
        /// The size.
        bytes: u64,
    },
    /// The trace differs from what it was when its addresses were collected.
    #[error("{name}:{line}: the trace has changed since its addresses were collected")]
    Changed {
        /// The trace's name, as given.
        name: String,
        /// Line of the request.
        line: u64,
    },
}

fn of_device(device: Option<u32>) -> String {
    device.map_or(String::new(), |device| format!(" of device {device}"))
}

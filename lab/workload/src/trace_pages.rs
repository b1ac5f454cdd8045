//! The page accesses of a trace.
//!
//! A request becomes one access for each page that it touches, in ascending order and with the request's time. The
//! pages that the trace touches are numbered without gaps, in the order of device and address, so that neighbours stay
//! neighbours ([`Footprint`]). The trace is read twice for that: once to collect its pages, once to replay them.

use crate::access::{Access, Workload, WorkloadError};
use crate::footprint::{Footprint, Touched};
use std::io::{self, BufRead};
use tonearm_base::Nanos;
use tonearm_trace::{Arrival, Format, Op, Reader, Record, SECTOR_BYTES};

const PAGE_BYTES_MAX: u64 = 1 << 24;

/// How a trace is read.
#[derive(Clone, Debug)]
pub struct TracePagesOptions {
    /// Name for errors.
    pub name: String,
    /// The trace's format.
    pub format: Format,
    /// Bytes of a page, a multiple of 512.
    pub page_bytes: u64,
    /// The only device whose requests are taken.
    pub device: Option<u32>,
}

/// A trace as a workload. `open` opens the trace's file from its beginning.
pub struct TracePages<'a, F> {
    options: TracePagesOptions,
    page_sectors: u64,
    open: F,
    reader: Reader<'a>,
    footprint: Footprint,
    /// What is left of the current request: line, device, pages, and the access for each of them.
    pending: Option<Pending>,
    skipped: u64,
}

struct Pending {
    line: u64,
    device: u32,
    next: u64,
    last: u64,
    write: bool,
    at: Option<Nanos>,
}

impl<'a, R, F> TracePages<'a, F>
where
    R: BufRead + 'a,
    F: FnMut() -> io::Result<R>,
{
    /// Collects the pages of the trace that `open` opens, and goes back to its beginning.
    ///
    /// # Errors
    /// When the trace cannot be opened or read, or has no read and no write.
    pub fn new(options: TracePagesOptions, mut open: F) -> Result<Self, WorkloadError> {
        let bytes = options.page_bytes;
        if bytes == 0 || !bytes.is_multiple_of(SECTOR_BYTES) || bytes > PAGE_BYTES_MAX {
            return Err(WorkloadError::PageBytes { bytes });
        }
        let page_sectors = bytes / SECTOR_BYTES;
        let reader = start(&options, &mut open)?;
        let mut touched = Touched::default();
        for record in reader {
            if let Some(pending) = take(&options, page_sectors, &record?) {
                touched.add(pending.device, pending.next..pending.last + 1);
            }
        }
        let footprint = Footprint::of(touched);
        if footprint.pages() == 0 {
            return Err(WorkloadError::Empty {
                name: options.name,
                device: options.device,
            });
        }
        let reader = start(&options, &mut open)?;
        Ok(Self {
            options,
            page_sectors,
            open,
            reader,
            footprint,
            pending: None,
            skipped: 0,
        })
    }

    /// Goes back to the first access.
    ///
    /// # Errors
    /// When the trace cannot be opened.
    pub fn rewind(&mut self) -> Result<(), WorkloadError> {
        self.reader = start(&self.options, &mut self.open)?;
        self.pending = None;
        self.skipped = 0;
        Ok(())
    }
}

impl<F> TracePages<'_, F> {
    /// Requests since the beginning that are no access: flushes, requests of other devices, and what the reader leaves
    /// out (discards, requests of zero bytes).
    pub fn skipped(&self) -> u64 {
        self.skipped + self.reader.skipped()
    }
}

impl<F> Workload for TracePages<'_, F> {
    fn pages(&self) -> u64 {
        self.footprint.pages()
    }

    fn next_access(&mut self) -> Result<Option<Access>, WorkloadError> {
        let mut pending = match self.pending.take() {
            Some(pending) => pending,
            None => loop {
                let Some(record) = self.reader.next() else {
                    return Ok(None);
                };
                match take(&self.options, self.page_sectors, &record?) {
                    Some(pending) => break pending,
                    None => self.skipped += 1,
                }
            },
        };
        let page = self.footprint.number(pending.device, pending.next);
        let Some(page) = page else {
            return Err(WorkloadError::Changed {
                name: self.options.name.clone(),
                line: pending.line,
            });
        };
        let access = Access {
            page,
            write: pending.write,
            at: pending.at,
        };
        if pending.next < pending.last {
            pending.next += 1;
            self.pending = Some(pending);
        }
        Ok(Some(access))
    }
}

fn start<'a, R: BufRead + 'a>(
    options: &TracePagesOptions,
    open: &mut impl FnMut() -> io::Result<R>,
) -> Result<Reader<'a>, WorkloadError> {
    let file = open().map_err(|source| WorkloadError::Open {
        name: options.name.clone(),
        source,
    })?;
    Ok(Reader::new(&options.name, options.format, file))
}

/// The pages of a request; none for a flush and for a request of another device.
fn take(options: &TracePagesOptions, page_sectors: u64, record: &Record) -> Option<Pending> {
    let wanted = options.device.is_none_or(|device| device == record.device);
    if !wanted || record.op == Op::Flush {
        return None;
    }
    // The reader guarantees at least one sector, and an end that does not overflow.
    let last = record.sector + u64::from(record.sectors) - 1;
    Some(Pending {
        line: record.line,
        device: record.device,
        next: record.sector / page_sectors,
        last: last / page_sectors,
        write: record.op == Op::Write,
        at: match record.arrival {
            Arrival::At(at) => Some(at),
            Arrival::AfterThink(_) => None,
        },
    })
}

//! Takes the accesses of a load: counts them, sends them through the pool, writes them as a trace.

use super::figures::{Flow, More, Report};
use crate::cli::Make;
use crate::commands::drive::{cpu_seconds, exact_ms};
use crate::commands::output::Output;
use anyhow::bail;
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::report;
use tonearm_trace::SECTOR_BYTES;
use tonearm_workload::{Access, PageCounts, Pool};

/// Most pages of a load: the counts of its accesses take 8 bytes for each page, a pool 4 more.
const PAGES_MAX: u64 = 1 << 28;
/// Accesses that are made between two looks at the clock.
pub const BATCH: usize = 1 << 16;

/// Accesses to each page.
#[derive(Default)]
pub struct Counts {
    pub reads: PageCounts,
    pub writes: PageCounts,
}

impl Counts {
    fn add(&mut self, access: Access) {
        if access.write {
            self.writes.add(access.page);
        } else {
            self.reads.add(access.page);
        }
    }

    fn flow(self, pages: u64) -> Flow {
        let sum = |counts: &PageCounts| counts.iter().map(|(_, count)| count).sum();
        let (reads, writes): (u64, u64) = (sum(&self.reads), sum(&self.writes));
        let shares = self.writes.shares(pages, &[0.1, 0.2, 0.5]);
        Flow {
            reads,
            writes,
            reads_per_write: (writes > 0).then(|| reads as f64 / writes as f64),
            writes_to_top_10_percent: shares[0],
            writes_to_top_20_percent: shares[1],
            writes_to_top_50_percent: shares[2],
        }
    }
}

/// Everything that is done with the accesses.
pub struct Measure {
    page_bytes: u64,
    pool_bytes: Option<u64>,
    pool: Option<Pool>,
    pub counts: Counts,
    pub behind_pool: Counts,
    trace: Option<Trace>,
    made: u64,
    cpu_seconds: f64,
}

impl Measure {
    /// Nothing was taken yet.
    ///
    /// # Errors
    /// When the options do not fit the load, or the output cannot be written.
    pub fn new(make: &Make, page_bytes: u64, pages: u64) -> anyhow::Result<Self> {
        check(make, page_bytes, pages)?;
        let trace = make.out.as_deref().map(Output::create).transpose()?;
        Ok(Self {
            page_bytes,
            pool_bytes: make.pool,
            pool: make.pool.map(|bytes| Pool::new(bytes / page_bytes)),
            counts: Counts::default(),
            behind_pool: Counts::default(),
            trace: trace.map(|output| Trace {
                output,
                sectors: page_bytes / SECTOR_BYTES,
                begun: false,
            }),
            made: 0,
            cpu_seconds: 0.0,
        })
    }

    /// Takes all accesses that `fill` makes, until it says that there are no more. `total` is for the progress, 0 if it
    /// is not known.
    ///
    /// # Errors
    /// When an access cannot be made or written.
    pub fn run(
        &mut self,
        total: u64,
        mut fill: impl FnMut(&mut Vec<Access>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let mut bar = Progress::new("generating", Unit::Count);
        let mut accesses = Vec::with_capacity(2 * BATCH);
        let mut more = true;
        while more {
            accesses.clear();
            let started = cpu_seconds();
            more = fill(&mut accesses)?;
            self.cpu_seconds += cpu_seconds() - started;
            self.made += accesses.len() as u64;
            for access in &accesses {
                self.take(*access)?;
            }
            bar.at(self.made, total.max(self.made));
        }
        Ok(())
    }

    fn take(&mut self, access: Access) -> anyhow::Result<()> {
        self.counts.add(access);
        let Some(pool) = &mut self.pool else {
            return self.write(access);
        };
        let io = pool.access(access.page, access.write);
        let at = access.at;
        let write = io.write.map(Access::write);
        let read = io.read.map(Access::read);
        for access in [write, read].into_iter().flatten() {
            self.behind_pool.add(access);
            self.write(Access { at, ..access })?;
        }
        Ok(())
    }

    fn write(&mut self, access: Access) -> anyhow::Result<()> {
        self.trace
            .as_mut()
            .map_or(Ok(()), |trace| trace.write(access))
    }

    /// Ends the output and returns the figures. `pages` is the size of the data at the end.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn finish(
        self,
        workload: String,
        seed: Option<u64>,
        pages: u64,
        more: More,
    ) -> anyhow::Result<Report> {
        if let Some(trace) = self.trace {
            trace.keep()?;
        }
        Ok(Report {
            workload,
            seed,
            page_bytes: self.page_bytes,
            pages,
            size_bytes: pages * self.page_bytes,
            accesses: self.counts.flow(pages),
            pool_bytes: self.pool_bytes,
            behind_pool: self.pool.is_some().then(|| self.behind_pool.flow(pages)),
            accesses_per_cpu_second: self.made as f64 / self.cpu_seconds.max(1e-9),
            more,
        })
    }
}

/// The accesses as a trace of the format csv. The first one decides whether it has times.
struct Trace {
    output: Output,
    sectors: u64,
    begun: bool,
}

impl Trace {
    fn write(&mut self, access: Access) -> anyhow::Result<()> {
        if !self.begun {
            self.begin(access.at.is_some())?;
        }
        let rw = if access.write { 'W' } else { 'R' };
        let (lba, sectors) = (access.page * self.sectors, self.sectors);
        match access.at {
            Some(at) => {
                let at = exact_ms(at);
                self.output.line(format_args!("{rw},{lba},{sectors},{at}"))
            }
            None => self.output.line(format_args!("{rw},{lba},{sectors},0")),
        }
    }

    fn begin(&mut self, times: bool) -> anyhow::Result<()> {
        self.begun = true;
        let time = if times {
            "arrival_ms"
        } else {
            "think_ms_before_next"
        };
        self.output.line(format_args!("rw,lba,sectors,{time}"))
    }

    fn keep(mut self) -> anyhow::Result<()> {
        if !self.begun {
            self.begin(false)?;
        }
        self.output.keep()
    }
}

/// Refuses what cannot be counted or written as a trace.
fn check(make: &Make, page_bytes: u64, pages: u64) -> anyhow::Result<()> {
    let to_stdout = make.out.as_ref().is_some_and(|out| out.as_os_str() == "-");
    if to_stdout && make.json {
        bail!("--out - and --json both write to standard output; give --out a file");
    }
    if page_bytes == 0 || !page_bytes.is_multiple_of(SECTOR_BYTES) || page_bytes > 1 << 24 {
        bail!("--page-size is {page_bytes}; it must be a multiple of 512, and at most 16MiB");
    }
    if pages > PAGES_MAX {
        bail!(
            "the load has {} pages of {page_bytes} bytes, and may have {}; take larger pages",
            report::count(pages),
            report::count(PAGES_MAX)
        );
    }
    Ok(())
}

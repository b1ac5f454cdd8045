//! A study of a trace: which layout suits it on given drives.
//!
//! The trace is replayed on stores of the product's own engine, on simulated drives in virtual time: in each layout, at
//! each utilisation, with and without a drive for the log, at the trace's rate and at twice that. The result is data,
//! and does not depend on the machine or the number of threads.
//!
//! 1. The blocks that the trace touches are packed densely, and every one is written once.
//! 2. Requests warm the store up, and the next ones are measured at the trace's rate. The trace is repeated as often as
//!    that takes.
//! 3. The next ones are measured at twice the rate.

mod character;
mod error;
mod load;
mod notes;
mod page;
mod recommend;
mod replay;

pub use character::Character;
pub use error::StudyError;
pub use load::{Load, Source, guess_format};
pub use page::{CASE_HEADS, Summary, page, rows_of_character};
pub use recommend::Recommendation;
pub use replay::IN_FLIGHT;

use crate::harness::{STRIPE_BYTES, SimStore, StoreShape};
use crate::parallel;
use crate::report::Figure;
use hdrhistogram::Histogram;
use replay::{How, OnRequests, Replay};
use serde::Serialize;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tonearm_base::Nanos;
use tonearm_disk::{DiskError, HomeParams, OpenOptions, Placement};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveFile;
use tonearm_format::ArrayLevel;

/// Bytes of a block of the stores.
const BLOCK: u64 = 4096;
/// Most bytes of blocks that a trace may touch.
pub const FOOTPRINT_BYTES_MAX: u64 = 64 << 30;
/// The separator of wolf and hylog decides so often in a measurement, if that gives an interval within these bounds.
const INTERVALS: u64 = 20;
const INTERVAL_MAX: Nanos = Nanos::from_secs(20 * 60);
const INTERVAL_MIN: Nanos = Nanos::from_secs(1);
/// Longest warm-up, in measurements.
const WARM_UP_MAX: u64 = 4;
/// Loads, in multiples of the trace's.
const LOADS: [u64; 2] = [1, 2];
/// A home's segments have about this size.
const SEGMENT_BYTES: u64 = 1 << 20;
/// A write cost that differs by more between the halves of a measurement is not steady.
const STEADY: f64 = 0.1;
/// A measurement of less virtual time shows little of the write-back, which waits for 5 seconds if it can.
const SECONDS_MIN: f64 = 60.0;

/// What is studied.
pub struct Setup {
    /// The drive of the home.
    pub drive: DriveFile,
    /// How many there are.
    pub disks: usize,
    /// How the home is spread over them.
    pub array: Option<ArrayLevel>,
    /// The drive of the log, in the cases that have one.
    pub log_drive: DriveFile,
    /// Share of the segments that hold live blocks, in percent, 25 to 98.
    pub utilisations: Vec<u64>,
    /// Requests of a measurement.
    pub requests: u64,
    /// Clients of a closed loop.
    pub clients: u64,
    /// Bound on written data in memory.
    pub memory_bytes: u64,
    /// Seed of all that is random.
    pub seed: u64,
}

/// The layout of a case.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Each block has one place.
    Overwrite,
    /// Blocks are appended to segments.
    Segments,
    /// They are, in the order of how often they are written.
    Wolf,
    /// Hot blocks are appended, cold ones overwritten.
    Hylog,
}

/// The result of a study.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Study {
    /// What the trace is like.
    pub trace: Character,
    /// The drive of the home.
    pub drive: String,
    /// How many there are.
    pub disks: usize,
    /// How the home is spread over them.
    pub redundancy: &'static str,
    /// The drive of the log, in the cases that have one.
    pub log_drive: String,
    /// Clients of a closed loop.
    pub clients: Option<u64>,
    /// Bound on written data in memory.
    pub memory_bytes: u64,
    /// Seed of all that is random.
    pub seed: u64,
    /// Requests before each measurement at the trace's rate.
    pub warm_up_requests: u64,
    /// Seconds between two decisions of wolf and hylog which blocks are hot: without and with a drive for the log.
    pub separation_seconds: [f64; 2],
    /// What was measured.
    pub cases: Vec<Case>,
    /// Which layout to choose.
    pub recommendation: Recommendation,
    /// What makes this study weaker than others, or its trace unusual.
    pub warnings: Vec<String>,
    /// How it was measured, and what the models do not know.
    pub notes: Vec<String>,
    /// Plots.
    #[serde(skip)]
    pub figures: Vec<Figure>,
}

/// One measurement.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Case {
    /// The layout.
    pub layout: Layout,
    /// Share of the segments that hold live blocks; none for overwrite, which has no spare space.
    pub utilisation_percent: Option<u64>,
    /// True when the log has a drive of its own.
    pub log_drive: bool,
    /// How many times the trace's rate, or the clients.
    pub load: u64,
    /// The figures.
    #[serde(flatten)]
    pub measured: Measured,
}

/// Figures of a measurement.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Measured {
    /// Requests.
    pub requests: u64,
    /// Virtual time.
    pub seconds: f64,
    /// Requests done per second.
    pub requests_per_s: f64,
    /// True when the store did not keep up with the arrivals. Response times are meaningless then, and left out.
    pub saturated: bool,
    /// Response times of all requests.
    pub response: Option<Times>,
    /// Those of reads.
    pub reads: Option<Times>,
    /// Those of durable writes and flushes.
    pub durable_writes: Option<Times>,
    /// Bytes written at home for each byte that the requests wrote.
    pub write_cost: Option<f64>,
    /// The same for both halves of the measurement.
    pub write_cost_halves: Vec<f64>,
    /// Bytes of the requests.
    pub requested_bytes: u64,
    /// Bytes that the drives read.
    pub read_bytes: u64,
    /// Bytes that the drives wrote, those of log and parity among them.
    pub written_bytes: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Share of the blocks that wolf or hylog take for hot.
    pub hot_share_percent: Option<f64>,
}

/// Response times.
#[derive(Serialize, Clone, Copy, PartialEq, Debug)]
pub struct Times {
    /// Number of requests.
    pub count: u64,
    /// Their mean.
    pub mean_ms: f64,
    /// Their median.
    pub p50_ms: f64,
    /// The time that 99 % do not exceed.
    pub p99_ms: f64,
    /// The longest one.
    pub max_ms: f64,
}

impl Layout {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 4] = [Self::Overwrite, Self::Segments, Self::Wolf, Self::Hylog];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overwrite => "overwrite",
            Self::Segments => "segments",
            Self::Wolf => "wolf",
            Self::Hylog => "hylog",
        }
    }
}

impl Times {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let ms = |ns: u64| ns as f64 / 1e6;
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            mean_ms: histogram.mean() / 1e6,
            p50_ms: ms(histogram.value_at_quantile(0.5)),
            p99_ms: ms(histogram.value_at_quantile(0.99)),
            max_ms: ms(histogram.max()),
        })
    }
}

impl Case {
    /// What it is, in words.
    pub fn name(&self) -> String {
        let store = Store {
            layout: self.layout,
            percent: self.utilisation_percent,
            log_drive: self.log_drive,
        };
        format!("{}, load x{}", store.name(), self.load)
    }

    /// True when the write cost is about the same in both halves of the measurement.
    pub fn is_steady(&self) -> bool {
        match self.measured.write_cost_halves[..] {
            [first, second] => (second - first).abs() <= STEADY * first.max(second),
            _ => true,
        }
    }
}

/// One store, which is measured at each load.
#[derive(Clone, Copy)]
struct Store {
    layout: Layout,
    percent: Option<u64>,
    log_drive: bool,
}

impl Store {
    fn name(&self) -> String {
        let percent = self.percent.map(|percent| format!(" at {percent} %"));
        let log = ["", ", log drive"][usize::from(self.log_drive)];
        format!("{}{}{log}", self.layout.name(), percent.unwrap_or_default())
    }
}

impl Setup {
    /// Makes the study. `progress` gets the number of requests that were simulated, and of all.
    ///
    /// # Errors
    /// When the store of the trace does not fit the drives, or the engine fails.
    pub fn run(
        &self,
        load: Load,
        progress: impl Fn(u64, u64) + Send + Sync + 'static,
    ) -> Result<Study, StudyError> {
        let load = Arc::new(load);
        self.check_fit(&load)?;
        let warm_up = self.warm_up(&load);
        let utilisations = self.utilisations.iter().map(|percent| Some(*percent));
        let stores = |layout, percents: Vec<Option<u64>>| {
            percents.into_iter().flat_map(move |percent| {
                [false, true].map(|log_drive| Store {
                    layout,
                    percent,
                    log_drive,
                })
            })
        };
        let first: Vec<Store> = stores(Layout::Overwrite, vec![None]).collect();
        let others: Vec<Store> = Layout::ALL[1..]
            .iter()
            .flat_map(|layout| stores(*layout, utilisations.clone().collect()))
            .collect();
        let each = warm_up + self.requests * LOADS.len() as u64 + self.lead();
        let (done, total) = (
            AtomicU64::new(0),
            (first.len() + others.len()) as u64 * each,
        );
        let progress: OnRequests = Arc::new(move |more| {
            let now = done.fetch_add(more, Ordering::Relaxed) + more;
            if now.is_multiple_of(1024) {
                progress(now, total);
            }
        });
        let measure = |store: &Store, interval: [Nanos; 2]| {
            let interval = interval[usize::from(store.log_drive)];
            self.measure(&load, *store, warm_up, interval, &progress)
        };
        let measure_all = |stores: &[Store], interval: [Nanos; 2]| {
            let all = parallel::map(stores, |store| measure(store, interval));
            all.into_iter().collect::<Result<Vec<_>, StudyError>>()
        };
        let mut cases = measure_all(&first, [INTERVAL_MAX; 2])?;
        // The layouts that separate blocks get their interval from the time that overwrite takes.
        let intervals = [0, 1].map(|index: usize| {
            let seconds = cases[index][0].measured.seconds;
            let interval = Nanos((seconds * 1e9 / INTERVALS as f64) as u64);
            interval.clamp(INTERVAL_MIN, INTERVAL_MAX)
        });
        cases.extend(measure_all(&others, intervals)?);
        let cases: Vec<Case> = cases.into_iter().flatten().collect();
        let mut study = Study {
            recommendation: Recommendation::of(&cases, !load.open, &self.log_drive.name),
            trace: load.character.clone(),
            drive: self.drive.name.clone(),
            disks: self.disks,
            redundancy: self.array.map_or("none", ArrayLevel::name),
            log_drive: self.log_drive.name.clone(),
            clients: (!load.open).then_some(self.clients),
            memory_bytes: self.memory_bytes,
            seed: self.seed,
            warm_up_requests: warm_up,
            separation_seconds: intervals.map(|interval| interval.0 as f64 / 1e9),
            cases,
            warnings: Vec::new(),
            notes: Vec::new(),
            figures: Vec::new(),
        };
        study.warnings = notes::warnings(&study, self, &load);
        study.notes = notes::notes(&study, self);
        study.figures = page::figures(&study);
        Ok(study)
    }

    /// Requests until every block has been written once more on average, within bounds.
    fn warm_up(&self, load: &Load) -> u64 {
        let written = load.blocks_written().max(1);
        let requests = load.requests.len() as u64;
        let wanted = u128::from(load.blocks) * u128::from(requests) / u128::from(written);
        let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
        wanted.clamp(self.requests / 2, WARM_UP_MAX * self.requests)
    }

    /// Requests between two measurements.
    fn lead(&self) -> u64 {
        self.requests / 4
    }

    fn shape(&self, load: &Load, store: Store) -> StoreShape<'_> {
        let home = |placement| HomeParams::Segments {
            segment_bytes: self.segment_bytes(),
            spare_percent: 100 - store.percent.unwrap_or(100),
            placement,
        };
        let home = match store.layout {
            Layout::Overwrite => HomeParams::Overwrite,
            Layout::Segments => home(Placement::Append),
            Layout::Wolf => home(Placement::Wolf),
            Layout::Hylog => home(Placement::Hylog),
        };
        let size_bytes = (load.blocks * BLOCK).max(1 << 20);
        StoreShape {
            disks: self.disks,
            array: self.array,
            log_drive: store.log_drive.then_some(&self.log_drive),
            memory_bytes: self.memory_bytes,
            ..StoreShape::new(&self.drive, home, size_bytes)
        }
    }

    /// Whole stripes, so that a segment is written without reading parity.
    fn segment_bytes(&self) -> u32 {
        let parity = usize::from(self.array == Some(ArrayLevel::Raid5));
        let row = match self.array {
            None => SEGMENT_BYTES,
            Some(_) => (self.disks - parity) as u64 * STRIPE_BYTES,
        };
        ((SEGMENT_BYTES / row).max(1) * row) as u32
    }

    fn check_fit(&self, load: &Load) -> Result<(), StudyError> {
        for percent in &self.utilisations {
            for log_drive in [false, true] {
                let store = Store {
                    layout: Layout::Segments,
                    percent: Some(*percent),
                    log_drive,
                };
                let planned = self.shape(load, store).plan()?;
                let drives = (0..self.disks).map(|index| (index, &self.drive, "each drive"));
                let log = log_drive.then_some((self.disks, &self.log_drive, "the log drive"));
                for (index, drive, what) in drives.chain(log) {
                    let drive_bytes =
                        Drive::new(&drive.spec, &DriveOptions::default()).sectors() * 512;
                    let needed_bytes = planned.bytes_of(index);
                    if needed_bytes > drive_bytes {
                        return Err(StudyError::Fit {
                            name: load.character.trace.clone(),
                            footprint_bytes: load.blocks * BLOCK,
                            needed_bytes,
                            what,
                            percent: *percent,
                            drive: drive.name.clone(),
                            drive_bytes,
                            more: ["", "more --disks, "][usize::from(index < self.disks)],
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Measures one store at each load.
    fn measure(
        &self,
        load: &Arc<Load>,
        store: Store,
        warm_up: u64,
        interval: Nanos,
        progress: &OnRequests,
    ) -> Result<Vec<Case>, StudyError> {
        let failed = |source: DiskError| StudyError::Engine {
            case: store.name(),
            source,
        };
        let sim = SimStore::create(&self.shape(load, store), self.seed).map_err(failed)?;
        let sim = Rc::new(sim);
        let (own, load, progress) = (sim.clone(), load.clone(), progress.clone());
        let (requests, lead, clients) = (self.requests, self.lead(), self.clients);
        let measured = sim.rt.block_on(async move {
            let options = OpenOptions {
                separation_interval: interval,
                ..OpenOptions::default()
            };
            let disk = own.open_with(options).await?;
            let replay = Replay::new(own, disk.clone(), load, progress).await?;
            replay.fill().await?;
            let (mut from, mut before) = (0, warm_up);
            let mut all = Vec::new();
            for load in LOADS {
                let measured = from + before;
                let end = measured + requests;
                let how = How { load, clients };
                all.push(replay.run(from..end, measured, how).await?);
                (from, before) = (end, lead);
            }
            disk.close().await?;
            Ok(all)
        });
        sim.rt.shut_down();
        let cases = measured.map_err(failed)?.into_iter().zip(LOADS);
        let cases = cases.map(|(measured, load)| Case {
            layout: store.layout,
            utilisation_percent: store.percent,
            log_drive: store.log_drive,
            load,
            measured,
        });
        Ok(cases.collect())
    }
}

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

mod case;
mod character;
mod error;
mod load;
mod notes;
mod page;
mod recommend;
mod replay;
mod setup;

pub use case::{Case, FOOTPRINT_BYTES_MAX, LOADS, Layout, Measured, Times};
pub use character::Character;
pub use error::StudyError;
pub use load::{Load, Source, guess_format};
pub use page::{LOAD_HEADS, Summary, page, rows_of_character};
pub use recommend::Recommendation;
pub use recommend::load_name;
pub use replay::IN_FLIGHT;
pub use setup::{Setup, Study};

use crate::harness::{STRIPE_BYTES, SimStore, StoreShape};
use crate::parallel;
use case::{BLOCK, Store};
use replay::{How, OnRequests, Replay};
use setup::WARM_UP_MAX;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tonearm_base::Nanos;
use tonearm_disk::{DiskError, HomeParams, OpenOptions, Placement};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_format::ArrayLevel;

/// The separator of wolf and hylog decides so often in a measurement, if that gives an interval within these bounds.
const INTERVALS: u64 = 20;
const INTERVAL_MAX: Nanos = Nanos::from_secs(20 * 60);
const INTERVAL_MIN: Nanos = Nanos::from_secs(1);
/// A home's segments have about this size.
const SEGMENT_BYTES: u64 = 1 << 20;

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
            create: String::new(),
            warnings: Vec::new(),
            notes: Vec::new(),
            figures: Vec::new(),
        };
        study.create = notes::create_command(&study, self);
        if let Some(why) = notes::too_short(&study) {
            study.recommendation.withhold(&why);
        }
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

//! An experiment, and the context in which it runs.

use crate::known_misses;
use crate::parallel;
use crate::report::{Figure, Finding, KnownMiss, Report};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use tonearm_drive_file::{DriveFile, TODAY, library};

/// A named, described, seeded program on simulated drives.
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Paper and section that it repeats, or its subject if no paper has it.
    pub source: &'static str,
    /// A sentence or two about its results.
    pub about: &'static str,
    /// The drives on which it runs if none is named: one of `lab/drives/`, or all mechanical ones.
    pub drives: Drives,
    /// The program.
    pub run: fn(&Context<'_>, &[DriveFile]) -> Outcome,
}

/// Drives of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drives {
    /// The named drive.
    One(&'static str),
    /// The named drives.
    Some(&'static [&'static str]),
    /// All mechanical drives of the project but those of today: one of them has no head that can be followed, and the map of
    /// the other takes four times as long as all the others together.
    Mechanical,
    /// All drives of the project.
    All,
}

/// The function of an experiment.
#[derive(Default)]
pub struct Outcome {
    /// Numbers next to the paper's.
    pub findings: Vec<Finding>,
    /// Plots and tables.
    pub figures: Vec<Figure>,
    /// The assumptions.
    pub notes: Vec<String>,
    /// Findings of known misses are missing, because the run is a quick one.
    pub is_partial: bool,
}

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Effort {
    /// As much as the report needs.
    #[default]
    Full,
    /// A tenth of the work: the same figures, less exact.
    Quick,
}

/// The inputs of a run.
pub struct Context<'a> {
    seed: u64,
    effort: Effort,
    progress: &'a (dyn Fn(u64, u64) + Sync),
    done: AtomicU64,
    total: AtomicU64,
}

/// Errors before an experiment begins.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// There is no such experiment.
    #[error("there is no experiment '{0}'; `tonearm-lab lab list` shows them all")]
    UnknownExperiment(String),
    /// It was left out of this program.
    #[error(
        "experiment sqlite is not in this program, since it brings SQLite's source with it; \
         build it in: cargo build --release -p tonearm-lab --features sqlite"
    )]
    NotBuilt,
    /// A drive without a head that can be followed.
    #[error(
        "experiment {experiment} needs a drive that turns and writes in place, and {drive} is none"
    )]
    NeedsPlatter {
        /// The experiment.
        experiment: &'static str,
        /// The drive.
        drive: String,
    },
}

/// How experiments are run.
pub struct Run<'a> {
    /// The drive in place of the experiment's own.
    pub drive: Option<DriveFile>,
    /// Seed of all that is random.
    pub seed: u64,
    /// How much is measured.
    pub effort: Effort,
    /// Called with the number of steps done, and of known steps.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl Drives {
    /// The drives themselves.
    pub fn named(self) -> Vec<DriveFile> {
        match self {
            Self::One(name) => vec![DriveFile::of_library(name)],
            Self::Some(names) => names
                .iter()
                .map(|name| DriveFile::of_library(name))
                .collect(),
            Self::Mechanical | Self::All => {
                let drives = library()
                    .iter()
                    .map(|drive| DriveFile::of_library(drive.name));
                drives
                    .filter(|drive| {
                        let is_today = TODAY.contains(&drive.name.as_str());
                        self == Self::All || (drive.spec.has_head() && !is_today)
                    })
                    .collect()
            }
        }
    }
}

impl Outcome {
    /// Marks the findings whose bounds are missed for a known reason.
    ///
    /// # Panics
    /// When there is no such finding, unless the outcome is partial.
    pub fn know(
        &mut self,
        experiment: &str,
        misses: impl IntoIterator<Item = (&'static str, KnownMiss)>,
    ) {
        for (what, miss) in misses {
            match self.findings.iter_mut().find(|f| f.what == what) {
                Some(found) => found.know(miss),
                None if self.is_partial => {}
                None => panic!("{experiment}: there is no finding '{what}'"),
            }
        }
    }
}

impl Experiment {
    /// The findings whose bounds it misses on its own drives: `known_misses.toml`.
    pub fn known_misses(&self) -> impl Iterator<Item = (&'static str, KnownMiss)> {
        known_misses::of(self.name)
    }

    /// Runs it.
    ///
    /// # Errors
    /// When the drive does not suit it.
    ///
    /// # Panics
    /// When a known miss names no finding.
    pub fn run(&self, run: &Run<'_>) -> Result<Report, LabError> {
        let drives = match &run.drive {
            None => self.drives.named(),
            Some(drive) if self.drives != Drives::All && !drive.spec.has_head() => {
                return Err(LabError::NeedsPlatter {
                    experiment: self.name,
                    drive: drive.name.clone(),
                });
            }
            Some(drive) => vec![drive.clone()],
        };
        let context = Context {
            seed: run.seed,
            effort: run.effort,
            progress: run.progress,
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
        };
        let mut outcome = (self.run)(&context, &drives);
        // Reasons and limits are those of the experiment's own drives.
        if run.drive.is_none() {
            outcome.know(self.name, self.known_misses());
        }
        let drive = match &run.drive {
            None => Cow::Borrowed(""),
            Some(drive) => Cow::Owned(format!(" --drive {}", drive.name)),
        };
        let quick = match run.effort {
            Effort::Full => "",
            Effort::Quick => " --quick",
        };
        Ok(Report {
            experiment: self.name.into(),
            title: self.title.into(),
            about: self.about.into(),
            source: self.source.into(),
            command: format!(
                "tonearm-lab lab run {}{drive} --seed {}{quick}",
                self.name, run.seed
            ),
            drives: drives.into_iter().map(|drive| drive.name).collect(),
            seed: run.seed,
            findings: outcome.findings,
            figures: outcome.figures,
            notes: outcome.notes,
        })
    }
}

impl Context<'_> {
    /// The count `full`, or a tenth of it in a quick run, but at least `least`.
    pub fn count(&self, full: u64, least: u64) -> u64 {
        match self.effort {
            Effort::Full => full,
            Effort::Quick => (full / 10).max(least),
        }
    }

    /// True when the full figures are wanted.
    pub fn is_full(&self) -> bool {
        self.effort == Effort::Full
    }

    /// The seed of a part of the experiment.
    pub fn seed(&self, part: u64) -> u64 {
        Random::new(self.seed, part).number()
    }

    /// The random numbers of a part of the experiment.
    pub fn random(&self, part: u64) -> Random {
        Random::new(self.seed, part)
    }

    /// Runs `work` on each of `items`, on all threads of the pool. The results are in the order of the items, so they
    /// do not depend on the number of threads.
    pub fn map<T: Sync, R: Send>(&self, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
        self.total.fetch_add(items.len() as u64, Ordering::Relaxed);
        parallel::map(items, |item| {
            let answer = work(item);
            let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
            (self.progress)(done, self.total.load(Ordering::Relaxed));
            answer
        })
    }
}

/// Seeded random numbers.
pub struct Random(ChaCha8Rng);

impl Random {
    /// The stream `part` of `seed`.
    pub fn new(seed: u64, part: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(part);
        Self(rng)
    }

    /// A random number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product. Its distribution is even up to one part in 2^64 / bound.
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A time from an exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

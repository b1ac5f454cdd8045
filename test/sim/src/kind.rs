//! Kinds of runs. The seed chooses the kind.

use crate::archives;
use crate::arrays;
use crate::arus;
use crate::campaign::{self, Failure, Outcome};
use crate::generate::{Size, generate};
use crate::run::run_script;
use crate::script::Script;
use crate::sqlite;
use crate::trees;
use clap::ValueEnum;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A kind of run.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Power cuts under the engine.
    PowerCuts,
    /// Power cuts under the engine, with the log on drives whose heads are followed.
    Heads,
    /// Several volumes and clients on the disk, restarts, and power cuts.
    Volumes,
    /// The same with faults of the drives.
    Faults,
    /// Recovery units over volumes and files, and power cuts.
    Arus,
    /// SQLite on files, and power cuts.
    Sqlite,
    /// Power cuts under the engine, with its home on an array whose members fail, stay away, come back and are rebuilt.
    Arrays,
    /// A store that is archived, power cuts, and restores.
    Archives,
    /// A file system, and power cuts.
    Trees,
}

impl Kind {
    /// The kind that `seed` chooses. Each kind gets about the same number of power cuts.
    pub fn of(seed: u64) -> Self {
        match seed % 14 {
            0 => Kind::PowerCuts,
            6 => Kind::Heads,
            7 => Kind::Sqlite,
            1 | 2 => Kind::Volumes,
            3..6 => Kind::Faults,
            12 => Kind::Arrays,
            11 => Kind::Trees,
            13 => Kind::Archives,
            _ => Kind::Arus,
        }
    }

    /// The script of a seed, for the kinds that have scripts.
    pub fn script(self, seed: u64, size: Size) -> Option<Script> {
        match self {
            Kind::Volumes => Some(generate(seed, size, false)),
            Kind::Faults => Some(generate(seed, size, true)),
            _ => None,
        }
    }

    /// Runs one seed.
    ///
    /// # Errors
    /// The first promise that does not hold. A panic counts as one.
    pub fn run(self, seed: u64, size: Size) -> Result<Outcome, Failure> {
        guarded(seed, || match self {
            Kind::PowerCuts | Kind::Heads => campaign::run(seed, size, self == Kind::Heads),
            Kind::Volumes => run_script(&generate(seed, size, false), seed),
            Kind::Faults => run_script(&generate(seed, size, true), seed),
            Kind::Arus => arus::run(seed, size),
            Kind::Sqlite => sqlite::run(seed, size),
            Kind::Arrays => arrays::run(seed, size),
            Kind::Archives => archives::run(seed, size),
            Kind::Trees => trees::run(seed, size),
        })
    }
}

/// Runs a script.
///
/// # Errors
/// The first promise that does not hold. A panic counts as one.
pub fn try_script(script: &Script, seed: u64) -> Result<Outcome, Failure> {
    guarded(seed, || run_script(script, seed))
}

fn guarded(seed: u64, work: impl FnOnce() -> Result<Outcome, Failure>) -> Result<Outcome, Failure> {
    // A run shares no state with its surroundings, so whatever a panic leaves is dropped.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
        Err(Failure {
            seed,
            at: (0, 0, 0),
            what: format!("panic: {}", text.unwrap_or_default()),
        })
    })
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().ok_or(fmt::Error)?;
        f.write_str(value.get_name())
    }
}

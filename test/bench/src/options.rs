//! Command-line options that the benchmark programs share.

use crate::report::{Column, line};
use crate::rounds::Rounds;
use anyhow::{Context, bail};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Ends a program: an error, such as a missing tool, is one line without a backtrace, whatever the environment asks for.
pub fn end(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Options of every comparison.
#[derive(Args)]
pub struct Common {
    /// Short samples and one round: a rehearsal, no result
    #[arg(long)]
    pub quick: bool,
    /// Only this workload (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Rounds [default: 5, or 1 with --quick]
    #[arg(long)]
    rounds: Option<usize>,
    /// Log of Tonearm's store: what a store of 2 GiB or more has by default
    #[arg(long, default_value = "1GiB")]
    pub log_size: String,
    /// The program
    #[arg(long, default_value = "target/release/tonearm")]
    pub tonearm: PathBuf,
    /// Longest wait for a quiet machine before a sample
    #[arg(long, default_value_t = 10)]
    quiet_seconds_max: u64,
    /// Names that can be asked for
    #[arg(long)]
    pub list: bool,
    /// Print JSON with all samples
    #[arg(long)]
    pub json: bool,
}

impl Common {
    /// The rounds. A rehearsal does not wait for a quiet machine.
    pub fn rounds(&self) -> Rounds {
        let (count, seconds) = match self.quick {
            true => (1, 0),
            false => (5, self.quiet_seconds_max),
        };
        Rounds {
            count: self.rounds.unwrap_or(count),
            quiet_max: Duration::from_secs(seconds),
        }
    }

    /// True when the workload `name` is to be measured.
    pub fn wants(&self, name: &str) -> bool {
        wanted(&self.only, name)
    }

    /// Measures each of `loads` in each round, and prints the line of each result; nothing when `what` is not wanted.
    ///
    /// # Errors
    /// The errors of `measure`.
    pub fn each<L: Copy, T>(
        &self,
        what: &'static str,
        loads: &[L],
        mut measure: impl FnMut(L, usize) -> anyhow::Result<T>,
        columns: &[Column<T>],
    ) -> anyhow::Result<Vec<T>> {
        let (rounds, mut results) = (self.rounds(), Vec::new());
        for round in 0..rounds.count {
            for load in loads.iter().filter(|_| self.wants(what)) {
                let result = measure(*load, round).context(what)?;
                rounds.print(round, &format!("{what}: {}", line(columns, &result)));
                results.push(result);
            }
        }
        Ok(results)
    }

    /// Seconds of a sample: `asked` if given, otherwise `quick` or `full`.
    pub fn seconds(&self, asked: Option<u64>, quick: u64, full: u64) -> u64 {
        asked.unwrap_or(if self.quick { quick } else { full })
    }
}

/// Something that can be asked for by its name: the name, and what it is.
pub type Named = (&'static str, &'static str);

/// Prints names that can be asked for, in a column of this width.
pub fn print_names(known: &[Named], width: usize) {
    for (name, title) in known {
        println!("{name:width$} {title}");
    }
}

/// True when `name` is in `asked`, or `asked` is empty.
pub fn wanted(asked: &[String], name: &str) -> bool {
    asked.is_empty() || asked.iter().any(|only| only == name)
}

/// Checks that all names are `known`.
///
/// # Errors
/// When a name is not. The message calls it a `what`.
pub fn check_names(asked: &[String], what: &str, known: &[Named]) -> anyhow::Result<()> {
    for name in asked {
        if !known.iter().any(|(known, _)| known == name) {
            bail!("no {what} '{name}'; --list names them");
        }
    }
    Ok(())
}

//! Command-line options that the benchmark programs share.

use anyhow::bail;
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
    /// Number of rounds.
    pub fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 })
    }

    /// Seconds of a sample: `asked` if given, otherwise `quick` or `full`.
    pub fn seconds(&self, asked: Option<u64>, quick: u64, full: u64) -> u64 {
        asked.unwrap_or(if self.quick { quick } else { full })
    }

    /// Longest wait for a quiet machine before a sample. A rehearsal does not wait.
    pub fn quiet_max(&self) -> Duration {
        let seconds = if self.quick {
            0
        } else {
            self.quiet_seconds_max
        };
        Duration::from_secs(seconds)
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
pub fn check_names(asked: &[String], what: &str, known: &[&str]) -> anyhow::Result<()> {
    for name in asked {
        if !known.contains(&name.as_str()) {
            bail!("no {what} '{name}'; --list names them");
        }
    }
    Ok(())
}

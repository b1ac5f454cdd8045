//! `tonearm-lab lab`: experiments from the command line.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tonearm-lab lab`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each experiment is a seeded program on simulated drives, in virtual time: the same seed gives the
same figures, whatever the machine. What was found stands next to what the papers print, with a
verdict where something is demanded.

Examples:
  tonearm-lab lab list
  tonearm-lab lab run trail-latency
  tonearm-lab lab run log-latency --drive sata8tb --report sata
  tonearm-lab lab all --report report        then open report/index.html")]
pub struct Lab {
    /// What to do.
    #[command(subcommand)]
    pub action: LabAction,
}

/// The subcommands of `tonearm-lab lab`.
#[derive(Subcommand, Debug)]
pub enum LabAction {
    /// List the experiments
    List(LabList),
    /// Run experiments
    Run(LabRun),
    /// Run all experiments
    All(LabAll),
    /// Time predictions of the head's position on this machine's processor
    Cost(LabCost),
}

/// `tonearm-lab lab cost`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tonearm-lab lab cost --drive atlas10k")]
pub struct LabCost {
    /// Name of a drive, or a .toml file
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "st41601n")]
    pub drive: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tonearm-lab lab list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tonearm-lab lab list")]
pub struct LabList {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tonearm-lab lab run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm-lab lab run trail-latency trail-batch
  tonearm-lab lab run log-latency --drive ./mine.toml --report mine
        which log is worth having on a drive of your own; open mine/index.html
  tonearm-lab lab run mimic-predictors --json > figures.json")]
pub struct LabRun {
    /// Names of `tonearm-lab lab list`
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Name of a drive, or a .toml file [default: the experiment's own]
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub drive: Option<String>,
    /// Options of the run.
    #[command(flatten)]
    pub how: LabHow,
}

/// `tonearm-lab lab all`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tonearm-lab lab all --report report --check
        exit code 1 when a bound is missed that is no known miss,
        or when a known miss is worse than its limit")]
pub struct LabAll {
    /// Options of the run.
    #[command(flatten)]
    pub how: LabHow,
}

/// How experiments are run.
#[derive(Args, Debug)]
pub struct LabHow {
    /// Write a report into this folder: index.html, and each figure as .svg
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Write the results as Markdown, too, with links to the figures of the report
    #[arg(long, value_name = "FILE.md", requires = "report")]
    pub markdown: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Measure a tenth: the same figures, with more chance in them
    #[arg(long)]
    pub quick: bool,
    /// Run this experiment in full, although the others are quick; can be given more than once
    #[arg(long, value_name = "NAME", requires = "quick")]
    pub in_full: Vec<String>,
    /// Exit with 1 when a bound is missed; known misses are allowed up to their limits
    #[arg(long)]
    pub check: bool,
}

//! The command line and its help texts.

mod calibrate;
mod drive;
mod lab;
mod study;
mod workload;

pub use self::calibrate::{Calibrate, ProfileGrid};
pub use self::drive::{
    BenchDrive, Deltas, Drive, DriveAction, List, Replay, Show, Switch, Switched, Validate,
};
pub use self::lab::{Lab, LabAction, LabCost, LabHow, LabList, LabRun};
pub use self::study::{Redundancy, Study};
pub use self::workload::{Make, SkewLoad, StandIn, TpccLoad, TraceLoad, Workload, WorkloadAction};

use clap::{Parser, Subcommand};
use tonearm_terminal::pages::{Completions, Man};

const ABOUT: &str = "Drives of Tonearm's log: simulated, calibrated, and in experiments";

const LONG_ABOUT: &str = "\
Tonearm's log can follow the head of a hard disk. This program finds out what a disk is like,
simulates drives in virtual time, and repeats the measurements of the papers that the log follows.
Stores are made and served by the program tonearm.";

const EXAMPLES: &str = "\
Start here:
  tonearm-lab drive list                       the drives that come with Tonearm
  tonearm-lab calibrate --drive atlas10k --out mine.toml
                                               find out what a simulated drive is like
  tonearm-lab calibrate /dev/sdx --out sdx.toml
                                               and a real one, by reads alone
  tonearm-lab lab run log-latency --drive ./sdx.toml
                                               what a log on that drive would gain
  tonearm-lab workload tpcc                    what TPC-C asks of a disk, and what it logs
  tonearm-lab study --trace sda.txt --drive ./sdx.toml --report study
                                               which layout suits the requests of a trace
  tonearm create /dev/md0 --size 2TB --log /dev/sdx --log-drive sdx.toml --force
                                               a store whose log follows its head

Exit codes: 0 done, 1 failed, 2 usage.";

const COMPLETIONS: &str = "\
Examples:
  tonearm-lab completions bash > ~/.local/share/bash-completion/completions/tonearm-lab
  tonearm-lab completions zsh > ~/.zfunc/_tonearm-lab
  tonearm-lab completions fish > ~/.config/fish/completions/tonearm-lab.fish";

const MAN: &str = "\
Examples:
  tonearm-lab man | man -l -
  tonearm-lab man --out /usr/local/share/man/man1";

/// The command line.
#[derive(Parser, Debug)]
#[command(name = "tonearm-lab", version, about = ABOUT, long_about = LONG_ABOUT, after_help = EXAMPLES)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Simulate drives: list, show, replay traces, compare with the real ones
    Drive(Drive),
    /// Find out what a drive is like, by timed reads and writes: makes its drive file
    Calibrate(Calibrate),
    /// Run experiments on simulated drives: the papers' figures, and which log suits a drive
    Lab(Lab),
    /// Recommend a layout for a trace on given drives: one page with a recommendation and its figures
    Study(Study),
    /// Make loads of page accesses: TPC-C, skewed loads, traces; as traces, or only their figures
    Workload(Workload),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS)]
    Completions(Completions),
    /// Print the manual page, or write one for each command
    #[command(after_help = MAN)]
    Man(Man),
}

#[cfg(test)]
#[path = "cli_test.rs"]
mod cli_test;

//! `tonearm wait`.

use clap::{ArgGroup, Args};
use std::path::PathBuf;
use std::time::Duration;
use tonearm_terminal::span;

/// `tonearm wait`.
#[derive(Args, Debug)]
#[command(group(
    ArgGroup::new("mark").required(true).args(["durable", "archived"])
))]
#[command(after_help = "\
Examples:
  tonearm wait disk.tonearm --durable 4711
        returns when commit 4711, and all before it, survive any crash
  tonearm wait disk.tonearm --archived 4711
        returns when they are in the archive, too (see `tonearm archive`)
  tonearm wait disk.tonearm --durable 4711 --timeout 5s || echo 'not yet'

Each commit has a number, its LSN. Programs get it from the library or from PRAGMA tonearm_lsn, and
`tonearm stats` shows the last one. The store must be served. A number belongs to one run of the
server: after a crash, the numbers of commits that were not durable are given again.

Exit codes: 0 reached, 1 failed, not served or not archived, 2 usage, 4 not in time, 5 no such commit yet.")]
pub struct Wait {
    /// The store's primary file or block device
    pub path: PathBuf,
    /// The LSN of the commit that must be durable
    #[arg(long, value_name = "LSN")]
    pub durable: Option<u64>,
    /// The LSN of the commit that must be in the archive
    #[arg(long, value_name = "LSN")]
    pub archived: Option<u64>,
    /// Give up after this time, such as 500ms, 5s or 2m [default: never]
    #[arg(long, value_name = "TIME", value_parser = span::parse_short)]
    pub timeout: Option<Duration>,
    /// Control socket, if the store is served with another than PATH.ctl
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

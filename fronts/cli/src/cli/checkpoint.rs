//! `tonearm checkpoint`.

use clap::Args;
use std::path::PathBuf;

/// `tonearm checkpoint`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tonearm checkpoint disk.tonearm
        before a copy of the drive, or to make the next opening after a crash fast

When it returns, every commit so far is at its home, and a recovery would begin after it. Clients go
on meanwhile. The store must be served: one that is closed has everything at home. The server writes
home by itself, too, so no checkpoint is ever needed; `tonearm serve --checkpoint-every` makes one from
time to time.")]
pub struct Checkpoint {
    /// The store's primary file or block device
    pub path: PathBuf,
    /// Control socket, if the store is served with another than PATH.ctl
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

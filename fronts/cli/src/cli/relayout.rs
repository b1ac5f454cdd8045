//! `tonearm relayout`.

use super::{LayoutMode, StoreArgs};
use clap::Args;
use std::path::PathBuf;

/// `tonearm relayout`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm relayout disk.tonearm --layout hylog
        between segments, wolf and hylog: at once, and nothing is copied
  tonearm create new.tonearm --size 10GiB --no-volume --layout hylog
  tonearm relayout disk.tonearm --to new.tonearm
        into a new store, made with whatever options: --layout, --spare, --log, --redundancy, or a larger --size

The store must not be served. A copy changes nothing in it, and may be interrupted: the same command goes
on. The new store is complete when the command ends with 'copied'. Until then it has one volume,
'unfinished-copy'.")]
#[group(required = true, multiple = false, args = ["layout", "to"])]
pub struct Relayout {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// The layout that the store gets where it is: segments, wolf or hylog
    #[arg(long, value_enum)]
    pub layout: Option<LayoutMode>,
    /// Copy everything into this store, which has no volumes and blocks of the same size
    #[arg(long, value_name = "NEW")]
    pub to: Option<PathBuf>,
}

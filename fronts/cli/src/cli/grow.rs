//! `tonearm grow`.

use super::VolumeStore;
use clap::Args;
use tonearm_terminal::size;

/// `tonearm grow`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm grow disk.tonearm --by 10GiB
  tonearm volume resize disk.tonearm main --size 20GiB      grows the store itself, if need be

Works on a store that is being served, while clients go on, and on one that is not. The file with the
last blocks becomes longer; it stays sparse. For the layout overwrite, on files. A store of another
layout, or on devices, is copied into a larger one: see `tonearm relayout`.")]
pub struct Grow {
    /// The store.
    #[command(flatten)]
    pub store: VolumeStore,
    /// Space to add, such as 10GiB; a little more may be added
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub by: u64,
}

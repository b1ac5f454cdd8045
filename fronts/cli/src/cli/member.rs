//! `tonearm member`.

use super::VolumeStore;
use clap::{Args, Subcommand};
use std::path::PathBuf;
use tonearm_terminal::size;

/// `tonearm member`.
#[derive(Args, Debug)]
#[command(after_help = "\
For stores that were made with --redundancy.

Examples:
  tonearm member list disk.tonearm
  tonearm member replace disk.tonearm /e/new     takes the place of the member that is missing, also while
                                                 the store is served
  tonearm member rebuild disk.tonearm            restores its data, also while the store is served

A member that was away while the store was in use is stale: its content is old, and it is not used. Its
file or device may take its own place again, with nothing of the old content:
  tonearm member replace disk.tonearm /b/1 --force")]
pub struct Member {
    /// What to do.
    #[command(subcommand)]
    pub action: MemberAction,
}

/// The subcommands of `tonearm member`.
#[derive(Subcommand, Debug)]
pub enum MemberAction {
    /// List the members of the array: where each is, and whether it is in use
    List {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
    },
    /// Put a new file or device in the place of the missing member, also while the store is served
    Replace {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
        /// The new file or device
        new: PathBuf,
        /// Overwrite an existing file, or use a block device
        #[arg(long)]
        force: bool,
    },
    /// Restore the data of the replaced member from the others; goes on where an earlier one has ended
    Rebuild {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
        /// Restore at most this much in a second, to leave time for clients [default: no limit]
        #[arg(long, value_name = "SIZE", value_parser = size::parse)]
        rate: Option<u64>,
        /// Give up sectors of the other members that cannot be read: the blocks there are lost, and the rebuild goes on.
        /// At its end the command names these places, and fails
        #[arg(long)]
        skip_unreadable: bool,
    },
}

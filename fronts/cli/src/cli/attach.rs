//! `tonearm attach`, `tonearm detach` and `tonearm devices`.

use super::Hosting;
use clap::{ArgAction, Args, builder::PossibleValuesParser, builder::TypedValueParser};
use std::path::PathBuf;
use std::time::Duration;
use tonearm_terminal::span;

/// `tonearm attach`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm attach disk.tonearm
        prints 'attached main of /srv/disk.tonearm as /dev/nbd0', and serves until it is detached
  tonearm attach disk.tonearm data --patience 1h
        another volume; programs wait for an hour when the server is away
  tonearm detach disk.tonearm
        from another terminal, after umount; Ctrl-C does the same
  mkfs.xfs /dev/nbd0 && mount /dev/nbd0 /mnt
        the device is one like every other

Needs root, and the module nbd of Linux 5.14 or newer. After a crash or kill -9, run the same command
again: it recovers, and goes on with the same device. Programs that use the device wait meanwhile,
and see no error. The kernel sends what was under way again within 30 seconds.")]
pub struct Attach {
    /// The store's primary file or block device
    #[arg(value_name = "STORE")]
    pub path: PathBuf,
    /// The volume
    #[arg(default_value = "main")]
    pub volume: String,
    /// How the device is made.
    #[command(flatten)]
    pub attach_args: AttachArgs,
    /// How the store is kept.
    #[command(flatten)]
    pub hosting: Hosting,
}

/// How devices of this kernel are made.
#[derive(Args, Clone, Debug)]
pub struct AttachArgs {
    /// How long programs wait for a server that has died, before they get errors
    #[arg(long, value_name = "TIME", value_parser = span::parse_short, default_value = "10m")]
    pub patience: Duration,
    /// Bytes of a sector of the device. 512 is for images whose partition tables were made for it, and slower
    #[arg(long, value_name = "BYTES", default_value = "4096", action = ArgAction::Set,
        value_parser = PossibleValuesParser::new(["512", "4096"]).map(|text| text.parse::<u32>().unwrap_or(4096)))]
    pub sector_size: u32,
}

/// `tonearm detach`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm detach disk.tonearm
        ends the device of the volume 'main'; its server closes the store and ends
  tonearm detach disk.tonearm data
  tonearm detach /dev/nbd0

A device that is mounted, or that another program has for itself, is not detached.")]
pub struct Detach {
    /// The store, or the device
    #[arg(value_name = "STORE|DEVICE")]
    pub path: PathBuf,
    /// The volume
    #[arg(default_value = "main")]
    pub volume: String,
}

/// `tonearm devices`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm devices
        each device of this kernel that is a volume: its store, its size, and whether it is in use
  tonearm devices --json")]
pub struct Devices {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

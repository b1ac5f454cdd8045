//! `tonearm attach`, `tonearm detach` and `tonearm devices`.

use super::Hosting;
use clap::{ArgAction, Args, builder::PossibleValuesParser, builder::TypedValueParser};
use std::path::PathBuf;
use std::time::Duration;
use tonearm_attach::Driver;
use tonearm_terminal::span;

/// `tonearm attach`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm attach disk.tonearm
        prints 'attached main of /srv/disk.tonearm as /dev/ublkb0', and serves until it is detached
  tonearm attach disk.tonearm data --driver nbd --patience 1h
        another volume, as /dev/nbd0; programs wait for an hour when the server is away
  tonearm detach disk.tonearm
        from another terminal, after umount; Ctrl-C does the same
  mkfs.xfs /dev/ublkb0 && mount /dev/ublkb0 /mnt
        the device is one like every other

Needs root, and the module ublk_drv of Linux 6.5 or newer or the module nbd of Linux 5.14 or newer. After
a crash or kill -9, run the same command again: it recovers, and goes on with the same device. Programs
that use the device wait meanwhile, and see no error. The kernel sends what was under way again: with ublk
at once, with nbd within 30 seconds.")]
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
    /// The kernel's driver that makes the device; without this option the better one that it has, ublk before nbd
    #[arg(long, value_name = "DRIVER", value_parser = PossibleValuesParser::new(["ublk", "nbd"]).map(driver))]
    pub driver: Option<Driver>,
    /// With nbd: how long programs wait for a server that has died, before they get errors. With ublk they wait for ever
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
  tonearm detach /dev/ublkb0

A device that is mounted, or that another program has for itself, is not detached.")]
pub struct Detach {
    /// The store, or the device
    #[arg(value_name = "STORE|DEVICE")]
    pub path: PathBuf,
    /// The volume
    #[arg(default_value = "main")]
    pub volume: String,
    /// Also a device that is in use. Its programs get I/O errors, and what they have not flushed is lost
    #[arg(long)]
    pub force: bool,
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

fn driver(name: String) -> Driver {
    match name.as_str() {
        "nbd" => Driver::Nbd,
        _ => Driver::Ublk,
    }
}

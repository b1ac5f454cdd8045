//! `tonearm archive`, `mark`, `history` and `restore`.

use super::{LayoutMode, VolumeStore};
use crate::control::ArchiveStart;
use clap::{Args, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use tonearm_terminal::{size, span};

/// How an archive is written.
#[derive(Args, Debug, Clone)]
pub struct ArchiveOptions {
    /// Archive at least every so often: what a lost machine may cost [from 1s]
    #[arg(long = "archive-interval", value_name = "TIME", value_parser = span::parse, default_value = "1s")]
    pub interval: Duration,
    /// Keep what is needed to restore any commit of this time, and delete what is older [default: keep all]
    #[arg(long = "archive-keep", value_name = "TIME", value_parser = span::parse)]
    pub keep: Option<Duration>,
    /// Keep the state of every commit for this time. Of older ones, keep one state a minute, after a day one an hour,
    /// after a week one a day, and those with a mark [default: keep all]
    #[arg(long = "archive-keep-every-commit", value_name = "TIME", value_parser = span::parse)]
    pub keep_every_commit: Option<Duration>,
    /// Read at most so many bytes of the store in a second for a base, to leave time for clients
    #[arg(long = "archive-base-rate", value_name = "SIZE", value_parser = size::parse, default_value = "200MiB")]
    pub base_rate: u64,
    /// Encrypt what is archived for this public key of age; repeat it for several
    #[arg(long = "archive-recipient", value_name = "AGE1...")]
    pub recipients: Vec<String>,
}

impl ArchiveOptions {
    /// To archive at `url`.
    pub fn start(&self, url: &str) -> ArchiveStart {
        ArchiveStart {
            url: url.to_string(),
            interval_ms: self.interval.as_millis() as u64,
            keep_ms: millis(self.keep),
            keep_every_commit_ms: millis(self.keep_every_commit),
            base_bytes_per_second: self.base_rate,
            recipients: self.recipients.clone(),
        }
    }
}

/// Without a time, 0: for ever.
fn millis(span: Option<Duration>) -> u64 {
    span.map_or(0, |span| (span.as_millis() as u64).max(1))
}

/// `tonearm archive`.
#[derive(Args, Debug)]
#[command(after_help = "\
An archive is a copy of the store's history in a folder (file:///folder) or a bucket (s3://bucket/prefix).
From it `tonearm restore` makes the store again, in the state of any archived commit. It has only commits
that are durable, so it never contains what a crash takes back. One archive is of one store.

A bucket takes its keys from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from the profile AWS_PROFILE in
~/.aws/credentials, besides AWS_REGION, and for other services than Amazon's AWS_ENDPOINT_URL (and
AWS_ALLOW_HTTP=true for http://) of the server's environment. `reload` replaces them in a server that runs.

With --archive-recipient changes and blocks are encrypted (age-encryption.org). The server needs no secret key.
Whoever restores does: --identity FILE, as age-keygen makes it. Keep a copy of that file elsewhere.

Examples:
  tonearm serve disk.tonearm --archive file:///backup/disk     from the start
  tonearm archive start disk.tonearm s3://bucket/disk          or while it is served
  tonearm archive status disk.tonearm                          how far it is
  tonearm archive reload disk.tonearm                          with other keys in the environment
  tonearm archive wait disk.tonearm                            until everything so far is archived
  tonearm archive stop disk.tonearm
  tonearm archive verify s3://bucket/disk                      reads all of it and checks every block")]
pub struct Archive {
    /// What to do.
    #[command(subcommand)]
    pub action: ArchiveAction,
}

/// The subcommands of `tonearm archive`.
#[derive(Subcommand, Debug)]
pub enum ArchiveAction {
    /// Begin to archive a store that is served; goes on where an earlier archive at that place has ended
    Start {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
        /// file:///folder or s3://bucket/prefix
        url: String,
        /// How it is written.
        #[command(flatten)]
        options: ArchiveOptions,
    },
    /// Archive what is durable, and end
    Stop {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
    },
    /// Let the server use the keys, region and endpoint of this command's environment (AWS_...), and read files with keys again
    Reload {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
    },
    /// Show how far the archive is
    Status {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
    },
    /// Wait until everything so far is archived (`tonearm wait --archived` waits for one commit)
    Wait {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
    },
    /// Read a whole archive and check it
    Verify {
        /// file:///folder or s3://bucket/prefix
        url: String,
        /// Where the keys are.
        #[command(flatten)]
        identities: Identities,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// What decrypts an archive.
#[derive(Args, Debug, Clone)]
pub struct Identities {
    /// Decrypt with the secret keys of age in this file; repeat it for several
    #[arg(long = "identity", value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// `tonearm mark`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm mark disk.tonearm before-upgrade
  tonearm restore file:///backup/disk old.tonearm --to-mark before-upgrade")]
pub struct Mark {
    /// The store.
    #[command(flatten)]
    pub store: VolumeStore,
    /// The name: letters, digits, and the characters . _ -
    pub name: String,
}

/// `tonearm history`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm history file:///backup/disk
  tonearm history s3://bucket/disk --json
  tonearm history s3://bucket/disk --names --to-time 10m        volumes and files of ten minutes ago")]
pub struct History {
    /// file:///folder or s3://bucket/prefix
    pub url: String,
    /// Show the volumes and files of the last archived commit, or of another one: the names that restore --only takes
    #[arg(long)]
    pub names: bool,
    /// Where the keys are.
    #[command(flatten)]
    pub identities: Identities,
    /// The commit whose volumes and files are shown.
    #[command(flatten)]
    pub target: RestoreTarget,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The commit whose state is restored.
#[derive(Args, Debug, Clone)]
#[group(multiple = false)]
pub struct RestoreTarget {
    /// The last archived commit (the default)
    #[arg(long)]
    pub latest: bool,
    /// The commit with this number
    #[arg(long, value_name = "LSN")]
    pub to_lsn: Option<u64>,
    /// The last commit that was durable at this time: 2026-11-25T10:00:00Z, or 10m for ten minutes ago
    #[arg(long, value_name = "TIME")]
    pub to_time: Option<String>,
    /// The commit that `tonearm mark` has named
    #[arg(long, value_name = "NAME")]
    pub to_mark: Option<String>,
}

/// `tonearm restore`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm restore s3://bucket/disk disk.tonearm                       the last archived state
  tonearm restore s3://bucket/disk disk.tonearm --to-time 10s         the state of ten seconds ago
  tonearm restore file:///backup/disk old.tonearm --to-lsn 51234 --dry-run
  tonearm restore file:///backup/disk new.tonearm --layout hylog      with another layout
  tonearm restore s3://bucket/disk app.db --only app.db               one database, as a plain file
  tonearm restore s3://bucket/disk app.db --only data/app.db          one of a directory
  tonearm restore s3://bucket/disk data --only data                   the directory

Nothing but this program and the address is needed. The store is made beside PATH, as PATH.partial, and
gets its name when it is complete. The same command goes on after an interruption. The new store has an
identity of its own: archive it at another address.

Without a flag the latest state is restored. If objects of the archive are missing or damaged, so that the state
that can be had is an older one, the command fails, and names it and the flag that takes it: --to-lsn. A bucket
that does not answer is asked again for 15 minutes.

With --only, PATH becomes a plain file with the content of one volume or file, or a directory with everything
below one; `tonearm history URL --names` lists volumes and files. Only you can read what is made. NAME is that of a volume, or the path of a file: app.db or dir/app.db. If a volume and a file have
the same name, NAME is the volume, and /NAME the file: with a leading slash it is always the path of a file.
Symbolic links are not followed. It needs space for that content, and for a file of the file system also for
the pages with names and attributes, in a temporary file beside PATH. It reads the commits up to three times,
and of a base only the parts with its blocks. It goes on after an interruption as well.")]
pub struct Restore {
    /// file:///folder or s3://bucket/prefix
    pub url: String,
    /// The new file: a store, or with --only a plain file
    pub path: PathBuf,
    /// The commit.
    #[command(flatten)]
    pub target: RestoreTarget,
    /// Restore this volume, file or directory alone, at PATH; a path of a file may begin with a slash
    #[arg(long, value_name = "NAME", conflicts_with_all = ["layout", "log_size"])]
    pub only: Option<OsString>,
    /// Where the keys are.
    #[command(flatten)]
    pub identities: Identities,
    /// Only show what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Where blocks live in the new store
    #[arg(long, value_enum, default_value_t = LayoutMode::Overwrite)]
    pub layout: LayoutMode,
    /// Size of its log [default: half of the size, 64 MiB to 1 GiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub log_size: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

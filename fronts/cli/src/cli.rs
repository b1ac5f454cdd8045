//! The command line: what can be asked, and the texts that teach it.

mod archive;
mod attach;
mod checkpoint;
mod exec;
mod files;
mod grow;
mod member;
mod mount;
mod relayout;
mod serve;
mod sqlite;
mod trace;
mod wait;

pub use self::archive::{
    Archive, ArchiveAction, ArchiveOptions, History, Identities, Mark, Restore, RestoreTarget,
};
pub use self::attach::{Attach, AttachArgs, Detach, Devices};
pub use self::checkpoint::Checkpoint;
pub use self::exec::Exec;
pub use self::files::{
    CopyOut, Files, FilesAction, FilesGet, FilesList, FilesMkdir, FilesMv, FilesPut, FilesRm,
};
pub use self::grow::Grow;
pub use self::member::{Member, MemberAction};
pub use self::mount::{Mount, MountArgs};
pub use self::relayout::Relayout;
pub use self::serve::{AckMode, Hosting, Serve, TlsMode, WriteCacheMode};
pub use self::sqlite::{Sqlite, SqliteAction, SqliteImport, SqliteShell};
pub use self::trace::{Trace, TraceAction, TraceFormat, TraceRecord};
pub use self::wait::Wait;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use tonearm_terminal::pages::{Completions, Man};
use tonearm_terminal::size;

const ABOUT: &str =
    "A logical disk: fast durable writes, atomic commits, integrity, served over NBD";

const LONG_ABOUT: &str = "\
Tonearm keeps block devices (volumes) in a store: a file, a few files, or raw block devices.
A flush costs one write to the store's log, every write is atomic, every block has a checksum,
and after a crash or power cut all that was flushed is there. Clients use the volumes over NBD.";

const EXAMPLES: &str = "\
Start here:
  tonearm create disk.tonearm --size 10GiB     make a store of one file with the volume 'main'
  tonearm serve disk.tonearm                   serve it; prints the URI for clients
  nbdinfo 'nbd+unix:///main?socket=disk.tonearm.sock'
  nbdcopy image.raw 'nbd+unix:///main?socket=disk.tonearm.sock'
  tonearm stats disk.tonearm --watch           see it work, from another terminal
  tonearm trace record disk.tonearm --out t.csv
                                               record its requests, for tonearm-lab and other tools
  tonearm sqlite --help                        SQLite databases in the store
  tonearm-lab --help                           another program: drives, simulated and calibrated

Exit codes: 0 done, 1 failed, 2 usage, 3 damage found; `wait` also has 4 and 5.";

const COMPLETIONS: &str = "\
Examples:
  tonearm completions bash > ~/.local/share/bash-completion/completions/tonearm
  tonearm completions zsh > ~/.zfunc/_tonearm
  tonearm completions fish > ~/.config/fish/completions/tonearm.fish";

const MAN: &str = "\
Examples:
  tonearm man | man -l -
  tonearm man --out /usr/local/share/man/man1";

/// The command line.
#[derive(Parser, Debug)]
#[command(name = "tonearm", version, about = ABOUT, long_about = LONG_ABOUT, after_help = EXAMPLES)]
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
    /// Make a new store, with one volume, 'main'
    Create(Create),
    /// Serve the volumes of a store over NBD
    Serve(Box<Serve>),
    /// Mount the file system of a store
    Mount(Box<Mount>),
    /// Make a volume a block device of this kernel, such as /dev/ublkb0
    Attach(Box<Attach>),
    /// End such a device
    Detach(Detach),
    /// List such devices
    Devices(Devices),
    /// Run a command on a mounted store whose changes happen at once or not at all
    Exec(Exec),
    /// Make, list, delete, resize or protect volumes
    Volume(Volume),
    /// Make a store larger, also while it is served
    Grow(Grow),
    /// List, copy, move or remove files and directories
    Files(Files),
    /// SQLite databases in a store: import, export, a shell
    Sqlite(Sqlite),
    /// The members of a store's array: list them, replace a failed one, rebuild its data
    Member(Member),
    /// Give a store another layout, or copy it into a new store with another one
    Relayout(Relayout),
    /// Tell what a store is and in what state; never changes it
    Info(Info),
    /// Verify a store that is not being served; --repair repairs what it can
    Check(Check),
    /// Verify all blocks of a store, also while it is served, and repair what an array can
    Scrub(Scrub),
    /// Show the counters of a store that is being served
    Stats(Stats),
    /// Bring everything that a served store has committed home
    Checkpoint(Checkpoint),
    /// Wait until a commit of a store that is being served survives any crash
    Wait(Wait),
    /// Record the requests of a store that is being served, as a trace
    Trace(Trace),
    /// Keep a copy of a served store's history in a folder or a bucket, to restore any commit
    Archive(Archive),
    /// Give the present state of an archived store a name
    Mark(Mark),
    /// Show what an archive has, and to which commits it can be restored
    History(History),
    /// Make a store from an archive, in the state of any archived commit
    Restore(Restore),
    /// Measure a store on this drive, in process
    Bench(Bench),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS)]
    Completions(Completions),
    /// Print the manual page, or write one for each command
    #[command(after_help = MAN)]
    Man(Man),
}

/// `tonearm create`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm create disk.tonearm --size 10GiB
        one sparse file: space is taken as it is written
  tonearm create disk.tonearm --size 10GiB --preallocate
        all space is taken now, so that the host cannot run out of it later
  tonearm create /slow/disk.tonearm --size 4TiB --log /fast/disk.log
        the log on another drive: flushes run at the speed of that drive
  tonearm create app.tn --size 10GiB --no-volume
        for files alone, such as SQLite's databases
  tonearm create disk.tonearm --size 32TiB --data /b/disk.2 --data /c/disk.3
        blocks spread over three files
  tonearm create disk.tonearm --size 8TiB --redundancy raid5 --data /b/1 --data /c/2 --data /d/3 --data /e/4
        the log in disk.tonearm, and blocks on four members of which any one may fail
  tonearm create /dev/sdx --size 8TB --redundancy raid5 --data /dev/sda --data /dev/sdb --data /dev/sdc --log-drive sdx.toml \
          --layout segments --force
        the log on a hard disk of its own, written where its head is, beside an array
  tonearm create /dev/md0 --size 2TB --log /dev/sdx --log-drive sdx.toml --force
        log on a hard disk of its own, written where its head is (first: tonearm-lab calibrate /dev/sdx)
  tonearm create /dev/sdx --size 500GB --force
        a raw block device; what is on it is lost")]
pub struct Create {
    /// The store's primary file, or a block device
    pub path: PathBuf,
    /// Space for volumes, such as 10GiB
    #[arg(long, value_parser = size::parse)]
    pub size: u64,
    /// Put the log on this file or device instead of PATH (may be repeated with --head: the drives take turns)
    #[arg(long, value_name = "PATH")]
    pub log: Vec<PathBuf>,
    /// Size of the log [default: half of the size, 64 MiB to 1 GiB]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub log_size: Option<u64>,
    /// What the log drive is like: the file that `tonearm-lab calibrate` made, or the name of a drive that
    /// `tonearm-lab drive list` knows (may be repeated, one for each --log); with --redundancy it describes PATH
    #[arg(long, value_name = "FILE")]
    pub log_drive: Vec<String>,
    /// Profile of the log drive, as `tonearm-lab calibrate --profile` takes it, for --head mimic (may be repeated, one
    /// for each --log)
    #[arg(long, value_name = "FILE")]
    pub log_profile: Vec<PathBuf>,
    /// How the log finds the place of its next write
    #[arg(long, value_enum, default_value_t = HeadMode::Auto)]
    pub head: HeadMode,
    /// Put blocks on this file or device, too (may be repeated)
    #[arg(long, value_name = "PATH")]
    pub data: Vec<PathBuf>,
    /// How blocks are spread over the --data members: with raid0 and raid5 these make an array, and PATH has the log
    #[arg(long, value_enum, default_value_t = RedundancyMode::None)]
    pub redundancy: RedundancyMode,
    /// Bytes of a stripe unit, for --redundancy raid0 and raid5: a power of two from 4KiB to 64MiB
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "64KiB")]
    pub stripe: u64,
    /// Bytes of a block: 4096, 8192, 16384, 32768 or 65536
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "4096")]
    pub block_size: u64,
    /// Make no volume 'main': all space is left for files, such as databases, and for volumes made later
    #[arg(long)]
    pub no_volume: bool,
    /// Where blocks live once they leave the log
    #[arg(long, value_enum, default_value_t = LayoutMode::Overwrite)]
    pub layout: LayoutMode,
    /// Bytes of a segment, for the layouts with segments: whole blocks from 64KiB to 64MiB; auto: about four times what
    /// --data-drive transfers in the time in which it finds a place, for each drive of an array
    #[arg(long, value_name = "SIZE", value_parser = SegmentSize::parse, default_value = "1MiB")]
    pub segment_size: SegmentSize,
    /// What each data drive is like, for --segment-size auto: a file or a name as for --log-drive
    #[arg(long, value_name = "FILE")]
    pub data_drive: Option<String>,
    /// Percent of the segments that stay free, for the layouts with segments: the more, the less there is to clean
    /// (2 to 75)
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    pub spare: u64,
    /// Take all space now instead of when it is written
    #[arg(long)]
    pub preallocate: bool,
    /// Overwrite existing files, or use block devices
    #[arg(long)]
    pub force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The size of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentSize {
    /// Of the data drive.
    Auto,
    Bytes(u64),
}

impl SegmentSize {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            text => size::parse(text).map(Self::Bytes),
        }
    }
}

/// Where blocks live once they leave the log.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutMode {
    /// Each block has one fixed place
    Overwrite,
    /// Blocks are appended to segments and found through a map: for random writes on hard disks. Trimmed space is
    /// used again, and never given back to the file system below
    Segments,
    /// As segments, but blocks that are written often are kept apart from the others, two segments at a time: less to
    /// clean when the store is nearly full
    Wolf,
    /// As segments, but only blocks that are written often are appended. The others are overwritten in place, so the
    /// store may be nearly full (--spare 5, or even 2)
    Hylog,
}

/// How blocks are spread over the data members.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum RedundancyMode {
    /// One after the other; a member that is lost is lost
    None,
    /// In stripes over all members; one member that is lost loses all
    Raid0,
    /// In stripes with parity over three members or more; any one may fail, and can be replaced
    Raid5,
}

/// How the log finds the place of its next write.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadMode {
    /// On line with --log-drive, else sequential
    Auto,
    /// Trail's geometric formula; needs --log-drive
    Formula,
    /// Skip distances of a profile (Disk Mimic); needs --log-profile
    Mimic,
    /// Learned from the writes of the log; better with --log-drive
    Online,
    /// The next sector: flash, files, RAID, cloud volumes
    Sequential,
}

/// Where the members of a store are, for every command that opens one.
#[derive(Args, Debug, Clone, Default)]
pub struct Members {
    /// Where a member of the store is now, if it was moved (may be repeated)
    #[arg(long = "member", value_name = "PATH")]
    pub members: Vec<PathBuf>,
    /// Use the page cache instead of direct I/O
    #[arg(long)]
    pub no_direct: bool,
    /// After a crash, open a RAID-5 array for writing although a member is missing: blocks of that member may be lost
    #[arg(long)]
    pub degraded: bool,
}

/// `tonearm volume`.
#[derive(Args, Debug)]
#[command(after_help = "\
Works on a store that is being served, through its control socket, and on one that is not.
Each volume is an NBD export of its name.

Examples:
  tonearm volume create disk.tonearm scratch --size 2GiB
  tonearm volume list disk.tonearm
  tonearm volume resize disk.tonearm scratch --size 4GiB
  tonearm volume set disk.tonearm scratch --read-only
  tonearm volume resize disk.tonearm scratch --size 1GiB --shrink
                                                            what lies beyond 1 GiB is lost
  tonearm volume delete disk.tonearm scratch
  tonearm volume put disk.tonearm main image.raw            an image in; it is durable then
  tonearm volume get disk.tonearm main copy.raw             and out, with holes where there is nothing

A new store gives all its space to 'main'. A store of the layout overwrite in files grows with its
volumes, also while it is served; otherwise resize 'main' first.")]
pub struct Volume {
    /// What to do.
    #[command(subcommand)]
    pub action: VolumeAction,
}

/// The subcommands of `tonearm volume`.
#[derive(Subcommand, Debug)]
pub enum VolumeAction {
    /// Make a volume that reads as zeroes
    Create {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
        /// Name of the volume, also of its NBD export
        name: String,
        /// Its size, such as 2GiB
        #[arg(long, value_parser = size::parse)]
        size: u64,
    },
    /// List the volumes and the free space
    List {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
    },
    /// Delete a volume and all that is in it; refused while clients use it
    Delete {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
        /// Name of the volume
        name: String,
        /// Delete it also below clients, whose requests fail then
        #[arg(long)]
        force: bool,
    },
    /// Change the size of a volume; refused while clients use it, if it becomes smaller
    Resize {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
        /// Name of the volume
        name: String,
        /// Its new size, such as 4GiB
        #[arg(long, value_parser = size::parse)]
        size: u64,
        /// Make it smaller although there is data beyond the new end, which is lost
        #[arg(long)]
        shrink: bool,
        /// Make it smaller also below clients, whose requests beyond the new end fail then
        #[arg(long)]
        force: bool,
    },
    /// Make a volume read-only or writable, until it is set otherwise
    #[command(group(
        ArgGroup::new("mode").required(true).args(["read_only", "read_write"])
    ))]
    Set {
        /// The store.
        #[command(flatten)]
        store: VolumeStore,
        /// Name of the volume
        name: String,
        /// Refuse every change of it, by NBD or otherwise; also its deletion and a new size
        #[arg(long)]
        read_only: bool,
        /// Take changes again; NBD clients that know it as read-only have to reconnect
        #[arg(long)]
        read_write: bool,
    },
    /// Make an image the content of a volume, durably
    Put(VolumePut),
    /// Copy a volume out into an image; what is damaged is an error, never wrong bytes
    Get(VolumeGet),
}

/// `tonearm volume put`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm volume put disk.tonearm main image.raw
  zcat image.raw.gz | tonearm volume put disk.tonearm main -
  qemu-img convert -O raw debian.qcow2 image.raw            first, for an image that is not raw

Only what is not zero is written, and what the volume held before is zeroed where the image has
nothing, also beyond its end: the volume reads as the image, and then as zeroes. On return that is
durable. It is no atomic unit: after an interruption the volume holds a part of the image; put it
again. Refused while clients use the volume, unless there is a --force.")]
pub struct VolumePut {
    /// The store.
    #[command(flatten)]
    pub store: VolumeStore,
    /// Name of the volume
    pub name: String,
    /// The image: a file, a block device, or - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Write below clients that use the volume
    #[arg(long)]
    pub force: bool,
    /// Copy the bytes as they are, also of a qcow2, VMDK, VDI or VHDX image, which is no disk for a guest then
    #[arg(long)]
    pub raw: bool,
}

/// `tonearm volume get`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm volume get disk.tonearm main copy.raw
  tonearm volume get disk.tonearm main - | gzip > copy.raw.gz
  tonearm volume get disk.tonearm main - > /dev/sdx

Every block is verified against its checksum. FILE has a hole where the volume has nothing or
zeroes, and appears under its name when it is complete and on the disk. What NBD clients write
meanwhile may be in it or not. Ends with exit code 3 when a block is damaged.")]
pub struct VolumeGet {
    /// What, and where to.
    #[command(flatten)]
    pub copy: CopyOut,
}

/// The store of a volume command.
#[derive(Args, Debug)]
pub struct VolumeStore {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Control socket, if the store is served with another than PATH.ctl
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
}

/// A store, and how to answer.
#[derive(Args, Debug)]
pub struct StoreArgs {
    /// The store's primary file or block device
    #[arg(value_name = "STORE")]
    pub path: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where the members are.
    #[command(flatten)]
    pub members: Members,
}

/// `tonearm info`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm info disk.tonearm
  tonearm info disk.tonearm --used       how much of each volume and of the files holds data
  tonearm info disk.tonearm --json | jq .volumes

--used reads the checksum tables (or the block map) of all that is reserved: about 2 MiB a GiB.
Works on stores that are served, closed, or crashed, and changes nothing.")]
pub struct Info {
    /// The store's primary file or block device
    pub path: PathBuf,
    /// Count the blocks that hold data, in each volume and in the files
    #[arg(long)]
    pub used: bool,
    /// Control socket, if the store is served with another than PATH.ctl
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where the members are.
    #[command(flatten)]
    pub members: Members,
}

/// `tonearm check`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm check disk.tonearm             look at everything, change nothing
  tonearm check disk.tonearm --repair    then repair what is damaged

Verifies the copies of the superblock, the log, all checksum tables, and every allocated block
against its checksum, that each list is a chain of the blocks that are on it, and the tree of files.
Of a store that was not shut down in order these are recovered in memory first, if the log holds less
than a GiB; nothing is written. Ends with exit code 3 when damage was found (and is still there). A degraded
array is no damage: check says so, and ends with 0; --json has it in array.degraded.

--repair opens the store for writing (which recovers it after a crash), gives up log records that
are damaged, and writes damaged checksum tables anew. A block that fails its checksum has no
second copy here: reading it stays an error until it is written again.")]
pub struct Check {
    /// The store's primary file or block device
    pub path: PathBuf,
    /// Repair what is damaged, as far as its right content is known
    #[arg(long)]
    pub repair: bool,
    /// Make the block map anew from the segment summaries first (stores of the segments layout)
    #[arg(long)]
    pub rebuild: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where the members are.
    #[command(flatten)]
    pub members: Members,
}

/// `tonearm scrub`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm scrub disk.tonearm               Ctrl-C ends it, and shows what it has found by then
  tonearm scrub disk.tonearm --no-repair   only looks
  tonearm scrub disk.tonearm --cancel      ends the one that is running

Verifies every block, and with --redundancy raid5 that the parity matches the data. The server of
the store does that while it goes on serving; a store that is not served is opened for it. What
the other members of the array compute, and what is right by its checksum, is repaired. Ends with
exit code 3 when there is damage that is not repaired.")]
pub struct Scrub {
    /// The store.
    #[command(flatten)]
    pub store: VolumeStore,
    /// Repair nothing
    #[arg(long)]
    pub no_repair: bool,
    /// Verify at most this much in a second, to leave time for clients [default: no limit]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub rate: Option<u64>,
    /// End the scrub that is running
    #[arg(long, conflicts_with_all = ["json", "no_repair", "rate"])]
    pub cancel: bool,
}

/// `tonearm stats`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm stats disk.tonearm             totals since the server started
  tonearm stats disk.tonearm --watch     and rates, each second
  tonearm stats disk.tonearm --json --watch
        one line of JSON each second")]
pub struct Stats {
    /// The store's primary file or block device
    pub path: PathBuf,
    /// Show anew each second, with rates
    #[arg(long, short)]
    pub watch: bool,
    /// Control socket, if the store is served with another than PATH.ctl
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tonearm bench`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tonearm bench disk.tonearm --seconds 10

Opens the store in this process (it must not be served), makes the volume 'tonearm-bench' in its
free space, measures, and deletes the volume again, also when interrupted. Other volumes are not
touched. There is no network and no NBD in these numbers.")]
pub struct Bench {
    /// The store's primary file or block device
    pub path: PathBuf,
    /// Seconds for each measurement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Size of the volume that is made for it
    #[arg(long, value_parser = size::parse, default_value = "1GiB")]
    pub size: u64,
    /// Bound on written data in memory
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "256MiB")]
    pub memory: u64,
    /// Bound on checksum tables or map pages in memory
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "32MiB")]
    pub map_cache: u64,
    /// What is known of the drive's write cache
    #[arg(long, value_enum, default_value_t = WriteCacheMode::Volatile)]
    pub write_cache: WriteCacheMode,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Where the members are.
    #[command(flatten)]
    pub members: Members,
}

#[cfg(test)]
#[path = "cli_test.rs"]
mod cli_test;

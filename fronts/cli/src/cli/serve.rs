//! `tonearm serve`, and what every server takes.

use super::{ArchiveOptions, AttachArgs, Members, MountArgs};
use crate::serve::vhost::VhostUser;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use tonearm_terminal::{size, span};

/// `tonearm serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm serve disk.tonearm
        on the Unix socket disk.tonearm.sock; Ctrl-C shuts it down in order
  tonearm serve disk.tonearm --run 'nbdcopy image.raw \"$uri\"'
        serve while a command runs; $uri and $unixsocket are set for it
  tonearm serve disk.tonearm --listen 0.0.0.0:10809 --tls-cert cert.pem --tls-key key.pem --tls-ca ca.pem
        over the network, for clients with a certificate of that authority
  tonearm serve disk.tonearm --ack write
        every write is durable before its reply, flush or not
  tonearm serve disk.tonearm --max-delay 50ms
        a power cut takes back at most the last 50 ms, although no client flushes
  tonearm serve disk.tonearm --mount /mnt
        and the store's file system beside them (see `tonearm mount --help`)
  tonearm serve disk.tonearm --vhost-user vm.sock
        a disk for a virtual machine, without a network protocol in between; with qemu:
        -object memory-backend-memfd,id=mem,size=1G,share=on -numa node,memdev=mem
        -chardev socket,id=disk,path=vm.sock,reconnect=1 -device vhost-user-blk-pci,chardev=disk
  tonearm serve disk.tonearm --metrics 127.0.0.1:9100
        Prometheus metrics at http://127.0.0.1:9100/metrics

After a crash or kill -9, run the same command again: it recovers, takes over the socket, and
clients that reconnect go on. Sockets handed over by systemd (LISTEN_FDS) are served as well.
Export names are the names of the volumes; the empty name is 'main'.")]
pub struct Serve {
    /// The store's primary file or block device
    pub path: PathBuf,
    /// Unix socket to serve on (may be repeated) [default: PATH.sock, if nothing else is given]
    #[arg(long, value_name = "PATH")]
    pub socket: Vec<PathBuf>,
    /// TCP address and port to serve on (may be repeated); NBD's port is 10809
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Vec<String>,
    /// Serve without TLS on addresses that other machines reach: each of them may then read and write every volume
    #[arg(long, requires = "listen")]
    pub insecure: bool,
    /// Serve a volume to a virtual machine as a disk over its own memory (vhost-user-blk), on this socket (may be repeated).
    /// The volume is main unless it is named
    #[arg(long, value_name = "PATH[:VOLUME]")]
    pub vhost_user: Vec<VhostUser>,
    /// Certificate chain of this server, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Authorities whose client certificates are asked for, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,
    /// Refuse clients without TLS, or serve them, too [default: require]
    #[arg(long, value_enum, requires = "tls_cert")]
    pub tls: Option<TlsMode>,
    /// Refuse all changes; the store must have been shut down in order
    #[arg(long, conflicts_with = "archive")]
    pub read_only: bool,
    /// Serve while this command runs (by sh -c), then end with its exit code
    #[arg(long, value_name = "COMMAND")]
    pub run: Option<String>,
    /// Mount the store's file system on this directory, too
    #[arg(long, value_name = "DIR")]
    pub mount: Option<PathBuf>,
    /// Options of the mount.
    #[command(flatten)]
    pub mount_args: MountArgs,
    /// Make a volume a block device of this kernel, too (may be repeated; see `tonearm attach --help`)
    #[arg(long, value_name = "VOLUME")]
    pub attach: Vec<String>,
    /// How devices are made.
    #[command(flatten)]
    pub attach_args: AttachArgs,
    /// How the store is kept.
    #[command(flatten)]
    pub hosting: Hosting,
}

/// How a server keeps its store.
#[derive(Args, Debug)]
pub struct Hosting {
    /// When a write is acknowledged
    #[arg(long, value_enum, default_value_t = AckMode::Flush)]
    pub ack: AckMode,
    /// Make everything durable this long after it was answered, also without a flush of the client, such as 50ms or 1s
    /// [default: no bound; 1s with a mount]. Misses are counted and reported
    #[arg(long, value_name = "TIME", value_parser = span::parse_short)]
    pub max_delay: Option<Duration>,
    /// Make a checkpoint this often, such as 10m (see `tonearm checkpoint`) [default: never]
    #[arg(long, value_name = "TIME", value_parser = span::parse_short)]
    pub checkpoint_every: Option<Duration>,
    /// What is known of the drive's write cache
    #[arg(long, value_enum, default_value_t = WriteCacheMode::Volatile)]
    pub write_cache: WriteCacheMode,
    /// Bound on written data in memory; writers wait beyond it
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "256MiB")]
    pub memory: u64,
    /// Bound on checksum tables or map pages in memory, whatever the size of the store
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "32MiB")]
    pub map_cache: u64,
    /// Seconds between two decisions which blocks are written often, for the layouts wolf and hylog
    #[arg(long, value_name = "SECONDS", default_value_t = 1200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub separation_interval: u64,
    /// Writes of the write-back at a data drive while clients read, so that reads go first; 64: they do not
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub writes_while_reading: u64,
    /// In the layouts with segments, write the blocks of commits of this size once, if no client waits for them; 0: never
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "64KiB")]
    pub large_commit: u64,
    /// Used share of a track of a followed log, in percent, from which the next write goes to the next track
    #[arg(long, value_name = "PERCENT", default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=100))]
    pub track_threshold: u64,
    /// Prometheus metrics on a loopback address or a Unix socket
    #[arg(long, value_name = "127.0.0.1:PORT|unix:PATH")]
    pub metrics: Option<String>,
    /// Control socket [default: PATH.ctl]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// After a crash, write everything home before serving
    #[arg(long)]
    pub write_back_on_recovery: bool,
    /// Keep a copy of the store's history here: file:///folder or s3://bucket/prefix (see `tonearm archive --help`)
    #[arg(long, value_name = "URL")]
    pub archive: Option<String>,
    /// How the archive is written.
    #[command(flatten)]
    pub archive_options: ArchiveOptions,
    /// Where the members are.
    #[command(flatten)]
    pub members: Members,
}

/// Who must use TLS.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMode {
    /// Clients without TLS are refused
    Require,
    /// Clients may do without
    Allow,
}

/// When a write is acknowledged.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckMode {
    /// At once; FLUSH and FUA make durable (what NBD promises)
    Flush,
    /// When it is durable: for clients that reconnect by themselves
    Write,
}

/// What is known of the drive's cache.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteCacheMode {
    /// It may lose or reorder writes that were not flushed: flushes are sent
    Volatile,
    /// It keeps writes and their order over a power cut: no flushes are sent
    Ordered,
}

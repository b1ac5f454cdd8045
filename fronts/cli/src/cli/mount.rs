//! `tonearm mount`.

use super::Hosting;
use clap::Args;
use std::path::PathBuf;

/// `tonearm mount`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm create disk.tonearm --size 10GiB --no-volume
  tonearm mount disk.tonearm /mnt
        until `umount /mnt`, Ctrl-C or SIGTERM; then the store is closed in order
  tonearm mount disk.tonearm /mnt -o allow_other
        for all users; the kernel checks their permissions
  tonearm mount disk.tonearm /mnt -o ro,noatime
        no changes; the store must have been shut down in order
  mount -t fuse.tonearm /srv/disk.tonearm /mnt -o allow_other
        by mount(8) and fstab, once /sbin/mount.fuse.tonearm is a link to tonearm

Every operation (a rename, a truncation, a write as the kernel sends it) is there after a crash as a
whole or not at all, in order. With -o direct_io the kernel splits no write of up to 1 MiB, which
databases without a journal of pages need; otherwise it may. fsync makes it durable; without fsync it
is durable within --max-delay, here 1s by default. There is no fsck. After kill -9, run the same command again: the dead mount is
detached, and the store recovers. Without root it needs fusermount3 (package fuse3).")]
pub struct Mount {
    /// The store's primary file or block device
    #[arg(value_name = "STORE")]
    pub path: PathBuf,
    /// The directory to mount on
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Options of the mount.
    #[command(flatten)]
    pub mount_args: MountArgs,
    /// How the store is kept.
    #[command(flatten)]
    pub hosting: Hosting,
}

/// Options of a mount.
#[derive(Args, Debug)]
pub struct MountArgs {
    /// Mount options with commas between them: ro, allow_other, noatime, suid, dev, noexec, sync,
    /// direct_io, fsname=NAME ...
    #[arg(short = 'o', value_name = "OPTIONS")]
    pub options: Vec<String>,
}

//! `tonearm files`: files of a store from the command line.

use crate::cli::StoreArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tonearm files`.
#[derive(Args, Debug)]
#[command(after_help = "\
Files are those of the store's file system: what a mount shows, and SQLite's databases. A PATH begins
at its root directory: notes/a.txt and /notes/a.txt are one file. Works on a store that is being
served, through its server, and on one that is not.

Examples:
  tonearm files list disk.tonearm                           the root directory
  tonearm files list disk.tonearm notes -l                  as ls -l does
  tonearm files put disk.tonearm notes.txt                  as notes.txt, atomically
  tonearm files put disk.tonearm notes.txt --name n --force in place of the file n
  tonearm files put disk.tonearm -r src                     a folder with everything below it
  tonearm files get disk.tonearm notes.txt                  into this folder
  tonearm files get disk.tonearm notes.txt - | less
  tonearm files get disk.tonearm -r / backup                everything
  tonearm files mkdir disk.tonearm -p a/b
  tonearm files mv disk.tonearm notes.txt a/b
  tonearm files rm disk.tonearm -r a

Databases: `tonearm sqlite import` and `export` also see to journals and to who else is at work.")]
pub struct Files {
    /// What to do.
    #[command(subcommand)]
    pub action: FilesAction,
}

/// The subcommands of `tonearm files`.
#[derive(Subcommand, Debug)]
pub enum FilesAction {
    /// List a directory: name, size, when the content was changed
    List(FilesList),
    /// Copy a file or a directory out of the store; what is damaged is an error, never wrong bytes
    Get(FilesGet),
    /// Copy files or folders into the store, each file atomically and durably
    Put(FilesPut),
    /// Remove files and directories from the store
    Rm(FilesRm),
    /// Make a directory
    Mkdir(FilesMkdir),
    /// Give a file or directory another name or place
    Mv(FilesMv),
}

/// `tonearm files list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm files list disk.tonearm
  tonearm files list disk.tonearm notes -l
  tonearm files list disk.tonearm --json | jq -r '.files[].name'

Directories end with a slash. In names, control characters are shown as ?, and bytes that are not
UTF-8 as the replacement character. Times are UTC.")]
pub struct FilesList {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// A directory or file in the store [default: the root directory]
    #[arg(value_name = "PATH", default_value = "/", hide_default_value = true)]
    pub dir: String,
    /// Print type, permissions, owner, group, size, time and name, one file a line
    #[arg(short, long)]
    pub long: bool,
}

/// `tonearm files get`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm files get disk.tonearm notes.txt
  tonearm files get disk.tonearm a/notes.txt /tmp/copy.txt --force
  tonearm files get disk.tonearm notes.txt - | wc
  tonearm files get disk.tonearm -r src            the directory src, into this folder
  tonearm files get disk.tonearm -r src old        as old, or as old/src if the folder old exists
  tonearm files get disk.tonearm -r / backup       everything, into the folder backup

Every block is verified against its checksum. A copy of a file appears under its name when it is
complete, and all copies are on the disk when the command ends. Ends with exit code 3 when a block is
damaged.

With -r, permissions and the times of files are kept, symbolic links are copied as links, and holes
stay holes. Owners, set-user-ID and set-group-ID bits, extended attributes and hard links are not kept.
Devices, FIFOs and sockets are skipped. Nothing is copied when one of the files exists and --force is
not given. A file that is damaged or has no name in UTF-8 is reported, and the others are copied.")]
pub struct FilesGet {
    /// What, and where to.
    #[command(flatten)]
    pub copy: CopyOut,
    /// Copy a directory and everything below it
    #[arg(short, long)]
    pub recursive: bool,
}

/// A file of a store that is copied out of it.
#[derive(Args, Debug)]
pub struct CopyOut {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Path in the store
    #[arg(value_name = "PATH")]
    pub name: String,
    /// Where to: a file, a folder, or - for standard output [default: the name of PATH, in this folder]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Replace FILE when there is one
    #[arg(long)]
    pub force: bool,
}

/// `tonearm files put`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm files put disk.tonearm notes.txt
  tonearm files put disk.tonearm notes.txt --name 'old notes' --force
  tonearm files put disk.tonearm *.txt --name notes/       into the directory notes
  tonearm files put disk.tonearm -r src                    the folder src, with everything below it
  tonearm files put disk.tonearm -r src --name old         as old, or as old/src if the directory old exists
  tonearm files put disk.tonearm -r . --name /             what is in this folder, into the root directory
  tar cz src | tonearm files put disk.tonearm - --name src.tar.gz

Each file is one atomic recovery unit: whoever opens it sees all of it or what was there before, also
after a crash. When the command ends, everything is durable.

With -r, directories are made as needed; permissions and the times of files are kept, symbolic links
below FILE stay links, and ranges of zeroes take no space. Owners, set-user-ID and set-group-ID bits,
extended attributes and hard links are not kept. Devices, FIFOs and sockets are refused: the others are
copied, and the exit code is 1. Nothing is copied when one of the files exists and --force is not
given. An interrupted command leaves files that were copied whole, and none in part.")]
pub struct FilesPut {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// The files to copy, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Path in the store; a directory, or a path that ends with /, takes FILE under its own name
    /// [default: the file's own name, in the root directory]
    #[arg(long, value_name = "PATH")]
    pub name: Option<String>,
    /// Copy folders with everything below them
    #[arg(short, long)]
    pub recursive: bool,
    /// Replace files that exist
    #[arg(long)]
    pub force: bool,
}

/// `tonearm files rm`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm files rm disk.tonearm notes.txt old.db
  tonearm files rm disk.tonearm -r notes

Does not ask. Removes nothing when one of the names does not exist, or one of these files is in use.
With -r, a file in a directory that is in use ends the command; what was removed before stays removed.")]
pub struct FilesRm {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Paths in the store
    #[arg(required = true, value_name = "PATH")]
    pub names: Vec<String>,
    /// Remove directories with everything in them
    #[arg(short, long)]
    pub recursive: bool,
}

/// `tonearm files mkdir`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm files mkdir disk.tonearm notes
  tonearm files mkdir disk.tonearm -p notes/2026/may")]
pub struct FilesMkdir {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// The directory, as a path in the store
    #[arg(value_name = "PATH")]
    pub dir: String,
    /// Also make the directories above it; no error when it exists
    #[arg(short, long)]
    pub parents: bool,
}

/// `tonearm files mv`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm files mv disk.tonearm notes.txt old.txt
  tonearm files mv disk.tonearm notes.txt archive      as archive/notes.txt if archive is a directory

Replaces nothing.")]
pub struct FilesMv {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// A path in the store
    #[arg(value_name = "FROM")]
    pub from: String,
    /// Its new path, or the directory to move it into
    #[arg(value_name = "TO")]
    pub to: String,
}

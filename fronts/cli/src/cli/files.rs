//! `tonearm files`: files of a store from the command line.

use crate::cli::StoreArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tonearm files`.
#[derive(Args, Debug)]
#[command(after_help = "\
Files are what SQLite keeps in a store, and what is put there. Works on a store that is being
served, through its server, and on one that is not.

Examples:
  tonearm files list disk.tonearm
  tonearm files put disk.tonearm notes.txt                  as notes.txt; there as a whole or not at all
  tonearm files put disk.tonearm notes.txt --name n --force in place of the file n
  tonearm files get disk.tonearm notes.txt                  into this folder
  tonearm files get disk.tonearm notes.txt - | less
  tonearm files rm disk.tonearm notes.txt

Databases: `tonearm sqlite import` and `export` also see to journals and to who else is at work.")]
pub struct Files {
    /// What to do.
    #[command(subcommand)]
    pub action: FilesAction,
}

/// The subcommands of `tonearm files`.
#[derive(Subcommand, Debug)]
pub enum FilesAction {
    /// List the files: name, size, when it was made
    List(FilesList),
    /// Copy a file out of the store; what is damaged is an error, never wrong bytes
    Get(FilesGet),
    /// Copy a file into the store, as a whole or not at all, and durably
    Put(FilesPut),
    /// Remove files from the store
    Rm(FilesRm),
}

/// `tonearm files list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm files list disk.tonearm
  tonearm files list disk.tonearm --json | jq -r '.files[].name'")]
pub struct FilesList {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// `tonearm files get`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tonearm files get disk.tonearm notes.txt
  tonearm files get disk.tonearm notes.txt /tmp/copy.txt --force
  tonearm files get disk.tonearm notes.txt - | wc

Every block is verified against its checksum. The copy appears under its name when it is complete
and on the disk. Ends with exit code 3 when a block is damaged.")]
pub struct FilesGet {
    /// What, and where to.
    #[command(flatten)]
    pub copy: CopyOut,
}

/// A file of a store that is copied out of it.
#[derive(Args, Debug)]
pub struct CopyOut {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Name in the store
    pub name: String,
    /// Where to: a file, a folder, or - for standard output [default: NAME in this folder]
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
  tar cz src | tonearm files put disk.tonearm - --name src.tar.gz

The copy is one atomic recovery unit: whoever opens the file sees all of it or what was there
before, also after a crash. On return it is durable.")]
pub struct FilesPut {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// The file to copy, or - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Name in the store [default: the file's own]
    #[arg(long)]
    pub name: Option<String>,
    /// Replace the file of that name when there is one
    #[arg(long)]
    pub force: bool,
}

/// `tonearm files rm`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  tonearm files rm disk.tonearm notes.txt old.db

Does not ask. Removes nothing when one of the names is no file, or one of them is in use.")]
pub struct FilesRm {
    /// The store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Names of the files in the store
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
}

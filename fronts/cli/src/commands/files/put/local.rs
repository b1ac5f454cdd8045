//! The files of this machine that go into a store.

use super::super::outcome::Outcome;
use super::super::tree;
use anyhow::{Context, anyhow};
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Permissions that a copy keeps. It has another owner, for whom set-user-ID and set-group-ID would mean something else.
const FILE_BITS: u32 = 0o777;
const DIRECTORY_BITS: u32 = 0o1777;

/// A file, directory or link that is to be copied.
pub struct Item {
    /// Its path on this machine.
    pub from: PathBuf,
    /// Its path in the store.
    pub to: String,
    /// What it is.
    pub kind: Kind,
    /// Permissions.
    pub mode: u32,
    /// Last change of the content, in seconds since 1970.
    pub modified_unix_s: u64,
}

/// What an item is.
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File {
        /// Its size.
        bytes: u64,
    },
    /// A symbolic link with this target.
    Link(String),
}

impl Kind {
    /// In words.
    pub fn text(&self) -> &'static str {
        match self {
            Self::Directory => "a directory",
            Self::File { .. } => "a file",
            Self::Link(_) => "a symbolic link",
        }
    }
}

impl Item {
    /// Bytes to copy.
    pub fn bytes(&self) -> u64 {
        match self.kind {
            Kind::File { bytes } => bytes,
            Kind::Directory | Kind::Link(_) => 0,
        }
    }
}

/// Adds `root`, which goes to the path `to`, and everything below it to `items`, a directory before what is in it. What
/// cannot be copied goes to `outcome`. `store` is never copied into itself.
///
/// # Errors
/// When there is no `root`.
pub fn walk(
    root: &Path,
    to: &str,
    store: &Path,
    items: &mut Vec<Item>,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let about =
        std::fs::metadata(root).with_context(|| format!("cannot read {}", root.display()))?;
    let store = std::fs::metadata(store).ok();
    let store = store.map(|about| (about.dev(), about.ino()));
    let mut next = items.len();
    add(root.to_path_buf(), to.to_string(), &about, items, outcome);
    while let Some(item) = items.get(next) {
        next += 1;
        if !matches!(item.kind, Kind::Directory) {
            continue;
        }
        let (dir, to) = (item.from.clone(), item.to.clone());
        let mut entries =
            match std::fs::read_dir(&dir).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
                Ok(entries) => entries,
                Err(error) => {
                    outcome.fail(&dir.display().to_string(), &error.into());
                    continue;
                }
            };
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
            let shown = path.display().to_string();
            let Some(name) = name.to_str() else {
                let why = anyhow!("the name is not UTF-8; use a mount for it (`tonearm mount`)");
                outcome.fail(&shown, &why);
                continue;
            };
            match entry.metadata() {
                Ok(about) if Some((about.dev(), about.ino())) == store => {
                    outcome.skip(&shown, "the store itself");
                }
                Ok(about) => add(path, tree::join(&to, name), &about, items, outcome),
                Err(error) => outcome.fail(&shown, &error.into()),
            }
        }
    }
    Ok(())
}

fn add(from: PathBuf, to: String, about: &Metadata, items: &mut Vec<Item>, outcome: &mut Outcome) {
    let shown = from.display().to_string();
    let mode = about.permissions().mode();
    let (kind, bits) = if about.is_dir() {
        (Kind::Directory, DIRECTORY_BITS)
    } else if about.is_file() {
        (Kind::File { bytes: about.len() }, FILE_BITS)
    } else if about.is_symlink() {
        match std::fs::read_link(&from).map(|target| target.into_os_string().into_string()) {
            Ok(Ok(target)) => (Kind::Link(target), FILE_BITS),
            Ok(Err(_)) => {
                let why = anyhow!(
                    "the target of the link is not UTF-8; use a mount for it (`tonearm mount`)"
                );
                return outcome.fail(&shown, &why);
            }
            Err(error) => return outcome.fail(&shown, &error.into()),
        }
    } else {
        let why = anyhow!("it is {}, which is not copied", tree::kind(mode));
        return outcome.fail(&shown, &why);
    };
    items.push(Item {
        from,
        to,
        kind,
        mode: mode & bits,
        modified_unix_s: u64::try_from(about.mtime()).unwrap_or_default(),
    });
}

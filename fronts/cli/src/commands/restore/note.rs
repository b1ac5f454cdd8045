//! How far a restore is: `PATH.partial.json`, beside the file that is being made, `PATH.partial`.
//!
//! The folder may be another user's, who can put links and files at these names. So new files are made where there is nothing
//! (`O_EXCL`), what is there already is used only if it is a file of this user with one name, and no link is followed.

use crate::cli::Restore;
use anyhow::{Context, bail};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tonearm_archive::Plan;
use tonearm_format::Uuid;

/// Most bytes of a note that are read.
const NOTE_MAX: u64 = 1 << 20;

/// How far a restore is.
#[derive(Serialize, Deserialize, PartialEq, Debug)]
pub(super) struct Note {
    url: String,
    /// The commit.
    pub(super) lsn: u64,
    /// Identity of the store. Another store may be archived at the same address meanwhile, with objects of the same names.
    store: Uuid,
    objects_done: usize,
    /// Checksum of these objects.
    digest: u32,
    /// Name of the volume or file that is restored alone.
    #[serde(default)]
    only: Option<String>,
}

impl Note {
    /// That `objects_done` objects of `plan` are applied.
    pub(super) fn new(arguments: &Restore, plan: &Plan, objects_done: usize) -> Self {
        Self {
            url: arguments.url.clone(),
            lsn: plan.lsn.0,
            store: plan.shape.store,
            objects_done,
            digest: plan.digest_of(objects_done).unwrap_or(0),
            only: arguments.only.as_deref().map(name_in_note),
        }
    }

    /// True when it is of the same store as `plan`.
    pub(super) fn is_of_store(&self, plan: &Plan) -> bool {
        self.store == plan.shape.store
    }

    /// How many of the first objects of `plan` are applied. When they are not those that it was noted for, because some were
    /// merged meanwhile or another base is used, it begins anew: one state is never made from parts of two histories.
    pub(super) fn done(&self, plan: &Plan) -> usize {
        let is_same = plan.digest_of(self.objects_done) == Some(self.digest);
        if is_same { self.objects_done } else { 0 }
    }
}

/// Where a restore makes its file or directory, and notes how far it is.
pub(super) struct Partial {
    /// What is being made.
    pub(super) made: PathBuf,
    note: PathBuf,
}

impl Partial {
    /// Those of a restore to `path`.
    pub(super) fn of(path: &Path) -> Self {
        Self {
            made: tonearm_store::sibling_path(path, "partial"),
            note: tonearm_store::sibling_path(path, "partial.json"),
        }
    }

    /// The note of an earlier restore that was interrupted, if there is one.
    ///
    /// # Errors
    /// When what is there is of another restore, or not of this user.
    pub(super) fn read(&self, arguments: &Restore) -> anyhow::Result<Option<Note>> {
        let has_made = is_own(&self.made)?;
        let Some(text) = self.text()? else {
            if has_made {
                bail!(
                    "{} is there, and nothing tells what it is from; remove it and run this command again",
                    self.made.display()
                );
            }
            return Ok(None);
        };
        if !has_made {
            // Nothing is left of that restore.
            return Ok(None);
        }
        let note: Option<Note> = serde_json::from_slice(&text).ok();
        let only = arguments.only.as_deref().map(name_in_note);
        match note {
            Some(note) if note.url == arguments.url && note.only == only => Ok(Some(note)),
            _ => bail!(
                "{} is from another restore; remove it and {}, and run this command again",
                self.note.display(),
                self.made.display()
            ),
        }
    }

    fn text(&self) -> anyhow::Result<Option<Vec<u8>>> {
        if !is_own(&self.note)? {
            return Ok(None);
        }
        let shown = || self.note.display().to_string();
        // Without NONBLOCK, a FIFO that has just been put there would hold the command.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(&self.note, flags, Mode::empty()).with_context(shown)?;
        let mut text = Vec::new();
        let read = File::from(file).take(NOTE_MAX).read_to_end(&mut text);
        read.with_context(shown)?;
        Ok(Some(text))
    }

    /// Notes how far the restore is.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(&self, note: &Note) -> anyhow::Result<()> {
        let written = (|| {
            let text = serde_json::to_vec(note)?;
            let folder = tonearm_store::folder_of(&self.note);
            // A new name, which nobody knows, and access for this user alone.
            let mut file = tempfile::Builder::new()
                .prefix(".tonearm-")
                .tempfile_in(folder)?;
            file.write_all(&text)?;
            file.persist(&self.note).map_err(|error| error.error)?;
            io::Result::Ok(())
        })();
        written.with_context(|| {
            format!(
                "{}: how far the restore is cannot be noted",
                self.note.display()
            )
        })
    }

    /// Removes the file that is being made, to begin anew.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub(super) fn clear(&self) -> io::Result<()> {
        let removed = match self.made.symlink_metadata() {
            Ok(about) if about.is_dir() => std::fs::remove_dir_all(&self.made),
            _ => std::fs::remove_file(&self.made),
        };
        match removed {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// What is wrong when it is of another state than the one that is wanted.
    pub(super) fn of_another_state(&self) -> String {
        format!(
            "{} is from a restore of another state; remove it and {}, and run this command again",
            self.made.display(),
            self.note.display()
        )
    }

    /// What is wrong when it is of another store than the archive is now.
    pub(super) fn of_another_store(&self) -> String {
        format!(
            "{} is from a restore of another store, which was archived at the same address; remove it and {}, and run this \
             command again",
            self.made.display(),
            self.note.display()
        )
    }

    /// Gives the file its name, durably.
    ///
    /// # Errors
    /// When it cannot be renamed.
    pub(super) fn finish(&self, path: &Path) -> io::Result<()> {
        std::fs::rename(&self.made, path)?;
        File::open(tonearm_store::folder_of(path))?.sync_all()?;
        std::fs::remove_file(&self.note)
    }
}

/// True when a file or directory of this user is at `path`; false when nothing is there.
fn is_own(path: &Path) -> anyhow::Result<bool> {
    let about = match path.symlink_metadata() {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let has_owner = |about: &Metadata| {
        let has_kind = about.is_dir() || about.is_file() && about.nlink() == 1;
        has_kind && about.uid() == rustix::process::geteuid().as_raw()
    };
    if !has_owner(&about) {
        bail!(
            "{} is nothing that a restore of this user has made: a link, of another user, or something else; remove it, or \
             restore to another path",
            path.display()
        );
    }
    Ok(true)
}

/// A name as a note has it. One that is not UTF-8 is escaped after a byte that no name has.
fn name_in_note(name: &OsStr) -> String {
    match name.to_str() {
        Some(name) => name.to_string(),
        None => format!("\0{}", name.as_bytes().escape_ascii()),
    }
}

#[cfg(test)]
#[path = "note_test.rs"]
mod note_test;

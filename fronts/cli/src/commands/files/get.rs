//! `tonearm files get`: one file, or a tree.

use super::copy::{Bar, Stop, open_shared, read};
use super::one_file::{copy_file, damage_counts, open};
use super::outcome::Outcome;
use super::place::Place;
use super::tree;
use crate::cli::{CopyOut, FilesGet};
use anyhow::{Context, bail};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};
use tonearm_store::files::{Files, FilesError};

/// Permissions that a copy keeps. It has another owner, for whom set-user-ID and set-group-ID would mean something else.
const FILE_BITS: u32 = 0o777;
const DIRECTORY_BITS: u32 = 0o1777;
/// Permissions of a directory until everything is in it.
const WHILE_COPYING: u32 = 0o700;

/// Copies what the user asks for out of the store.
///
/// # Errors
/// When nothing, or not everything before a failure, could be copied.
pub fn get(arguments: &FilesGet) -> anyhow::Result<ExitCode> {
    get_any(arguments).or_else(|error| damage_counts(Err(error)))
}

fn get_any(arguments: &FilesGet) -> anyhow::Result<ExitCode> {
    let copy = &arguments.copy;
    let files = open(&copy.store)?;
    // If there is nothing of this name, the copy of a file reports it.
    let info = tree::find(&*files, &copy.name)?;
    let is_tree = info.as_ref().is_some_and(|info| !info.is_file());
    match (is_tree, arguments.recursive) {
        (true, true) => get_tree(&*files, copy),
        (true, false) => bail!(
            "{} is {}; `tonearm files get -r` copies directories with everything below them, and links",
            copy.name,
            tree::kind(info.map_or(0, |info| info.mode))
        ),
        (false, _) => {
            copy_file(&*files, copy, |_, _, _| Ok(()))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn get_tree(files: &dyn Files, copy: &CopyOut) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let base = base(copy)?;
    let mut outcome = Outcome::new(copy.name.clone(), base.display().to_string());
    let entries = tree::walk(files, &copy.name, |path, error| {
        outcome.fail(path, &error.into());
    })?;
    check_free(&entries, &base, copy.force)?;
    let total = entries.iter().filter(|entry| entry.info.is_file());
    let mut out = TreeOut {
        files,
        base: &base,
        replace: copy.force,
        stop: &stop,
        bar: Bar::new(total.map(|entry| entry.info.size_bytes).sum()),
        made: Vec::new(),
    };
    let copied = entries
        .iter()
        .try_for_each(|entry| out.copy(entry, &mut outcome));
    let finished = out.finish();
    drop(out);
    if stop.has_come() {
        bail!(
            "interrupted; {} of the files are in {}, each as a whole",
            outcome.files,
            base.display()
        );
    }
    copied?;
    finished?;
    outcome.report(copy.store.json)
}

/// Where the tree goes, as `cp -r` does it: into a folder that exists, or to that path.
fn base(copy: &CopyOut) -> anyhow::Result<PathBuf> {
    let own = tree::name_of(&copy.name);
    match (copy.file.as_deref(), own) {
        (Some(given), _) if given == Path::new("-") => {
            bail!("a directory cannot go to standard output; give a folder")
        }
        (Some(given), Some(own)) if given.is_dir() => Ok(given.join(own)),
        (Some(given), _) => Ok(given.to_path_buf()),
        (None, Some(own)) => Ok(PathBuf::from(own)),
        (None, None) => bail!(
            "{} has no name of its own; give a folder for the copy",
            copy.name
        ),
    }
}

/// Refuses a copy over what exists, before anything is copied.
fn check_free(entries: &[tree::Entry], base: &Path, replace: bool) -> anyhow::Result<()> {
    let mut missing: BTreeSet<PathBuf> = BTreeSet::new();
    for entry in entries {
        let path = local(base, &entry.below);
        let is_below_missing = path.parent().is_some_and(|above| missing.contains(above));
        let about = if is_below_missing {
            None
        } else {
            look(&path, &entry.below)?
        };
        let shown = path.display();
        match about {
            None => {
                missing.insert(path);
            }
            Some(about) if entry.info.is_dir() && about.is_dir() => {}
            Some(about)
                if entry.info.is_file() && about.is_file()
                    || entry.info.is_link() && about.is_symlink() =>
            {
                if !replace {
                    bail!("{shown} exists; --force replaces it. Nothing was copied");
                }
            }
            Some(_) if entry.info.is_dir() || entry.info.is_file() || entry.info.is_link() => {
                bail!(
                    "{shown} exists and is not {}; remove it, or copy to another place. Nothing was copied",
                    tree::kind(entry.info.mode)
                )
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// What is at `path`, if something is. The user may have named a link to the folder; below it links are not followed.
fn look(path: &Path, below: &str) -> anyhow::Result<Option<std::fs::Metadata>> {
    let about = if below.is_empty() && path.is_dir() {
        path.metadata()
    } else {
        path.symlink_metadata()
    };
    match about {
        Ok(about) => Ok(Some(about)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot look at {}", path.display())),
    }
}

fn local(base: &Path, below: &str) -> PathBuf {
    if below.is_empty() {
        base.to_path_buf()
    } else {
        base.join(below)
    }
}

/// A copy of a tree that is being made.
struct TreeOut<'a> {
    files: &'a dyn Files,
    base: &'a Path,
    replace: bool,
    stop: &'a Stop,
    bar: Bar,
    /// Directories that were made, with their permissions.
    made: Vec<(PathBuf, u32)>,
}

impl TreeOut<'_> {
    /// Copies one entry. What concerns it alone goes to `outcome`.
    ///
    /// # Errors
    /// When it makes no sense to go on.
    fn copy(&mut self, entry: &tree::Entry, outcome: &mut Outcome) -> anyhow::Result<()> {
        self.stop.check()?;
        let path = local(self.base, &entry.below);
        let info = &entry.info;
        let copied = if info.is_dir() {
            self.directory(&path, info.mode)
                .map(|()| outcome.directories += 1)
        } else if info.is_link() {
            self.link(entry, &path).map(|()| outcome.links += 1)
        } else if info.is_file() {
            self.file(entry, &path).map(|bytes| {
                outcome.files += 1;
                outcome.size_bytes += bytes;
            })
        } else {
            outcome.skip(&entry.path, tree::kind(info.mode));
            Ok(())
        };
        let Err(error) = copied else { return Ok(()) };
        // Errors of this machine's folder, and of a session that is over, would come again with the next file.
        let is_of_entry = error.downcast_ref::<FilesError>().is_some() && !self.stop.has_come();
        if !is_of_entry || self.files.marks().is_err() {
            return Err(error);
        }
        outcome.fail(&entry.path, &error);
        Ok(())
    }

    fn directory(&mut self, path: &Path, mode: u32) -> anyhow::Result<()> {
        match DirBuilder::new().mode(WHILE_COPYING).create(path) {
            Ok(()) => {
                self.made.push((path.to_path_buf(), mode & DIRECTORY_BITS));
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot make {}", path.display())),
        }
    }

    fn link(&self, entry: &tree::Entry, path: &Path) -> anyhow::Result<()> {
        let target = self.files.read_link(&entry.path)?;
        let cannot = || format!("cannot make the link {}", path.display());
        if self.replace && path.is_symlink() {
            std::fs::remove_file(path).with_context(cannot)?;
        }
        symlink(target, path).with_context(cannot)
    }

    fn file(&mut self, entry: &tree::Entry, path: &Path) -> anyhow::Result<u64> {
        let name = &entry.path;
        let file = open_shared(self.files, name)?;
        let mut copy = || {
            let place = Place::File {
                path: path.to_path_buf(),
                replace: self.replace,
            };
            let mut target = place.begin()?;
            let bytes = read(
                self.files,
                file,
                name,
                &mut target,
                self.stop,
                &mut self.bar,
            )?;
            let modified = UNIX_EPOCH + Duration::from_secs(entry.info.modified_unix_s);
            target.finish_with(entry.info.mode & FILE_BITS, modified)?;
            Ok(bytes)
        };
        let copied = copy();
        self.files.close(file);
        copied
    }

    /// Gives the directories their permissions, and makes everything durable.
    fn finish(&self) -> anyhow::Result<()> {
        for (path, mode) in self.made.iter().rev() {
            std::fs::set_permissions(path, Permissions::from_mode(*mode))
                .with_context(|| format!("cannot set the permissions of {}", path.display()))?;
        }
        // A link has no file system of its own to sync, and the name of the tree is in the folder above.
        let folder = tonearm_store::folder_of(self.base);
        File::open(folder)
            .and_then(|folder| Ok(rustix::fs::syncfs(folder)?))
            .with_context(|| format!("cannot make the copy in {} durable", folder.display()))
    }
}

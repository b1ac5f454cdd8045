//! One volume or file of an archive, as a plain file.

mod directory;
mod names;
mod nearest;
mod plain;
mod tree;

use self::directory::Directory;
pub(super) use self::names::names;
use self::nearest::Nearest;
use self::plain::Plain;
use self::tree::{CommitTree, read_table, read_tree, wrong};
use super::fetch;
use super::patient::Reader;
use crate::cli::Restore;
use anyhow::{Context, anyhow};
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use tonearm_archive::{Bucket, Extract, Plan, VolumeTable};
use tonearm_format::VolumeEntry;
use tonearm_fs::{OfflineError, path_text};
use tonearm_terminal::{report, size};

/// What SQLite appends to the name of a database for files with a part of its content.
const COMPANIONS: [&str; 2] = ["-wal", "-journal"];

/// Who may read what is made: what was in a store for its owner alone stays so.
const MODE: u32 = 0o600;

/// What is restored.
pub(super) struct Only {
    /// The name for which it was asked.
    name: Vec<u8>,
    size_bytes: u64,
    /// Bytes of a block.
    block_size: u64,
    extract: Extract,
    /// What is made, if it is a directory.
    directory: Option<Directory>,
    /// Files without which it is not whole: what is after its name in theirs, and the name that `--only` takes.
    companions: Vec<(&'static str, Vec<u8>)>,
}

impl Only {
    /// Finds `name` at the commit of `plan`, and leaves in the plan only the objects that it needs. It is that of a volume, or else
    /// the path of a file in the tree; with a leading slash always a path. The file `path` is to be made.
    pub(super) fn find(
        bucket: &Reader,
        plan: &mut Plan,
        name: &OsStr,
        path: &Path,
    ) -> anyhow::Result<Self> {
        let (name, table) = (name.as_bytes(), read_table(bucket, plan)?);
        let only = match volume(&table, name) {
            Some(entry) => Self::of_volume(plan, entry),
            None => {
                let folder = tonearm_store::folder_of(path);
                let tree = read_tree(bucket, plan, &table, folder)?;
                Self::of_file(bucket, plan, &table, tree, name)?
            }
        };
        only.narrow(plan);
        Ok(only)
    }

    fn of_volume(plan: &Plan, entry: &VolumeEntry) -> Self {
        Self {
            name: entry.name.clone().into_bytes(),
            size_bytes: entry.size_bytes,
            block_size: u64::from(plan.shape.block_size),
            extract: Extract::new(plan, &entry.extents),
            directory: None,
            companions: Vec::new(),
        }
    }

    fn of_file(
        bucket: &Reader,
        plan: &Plan,
        table: &VolumeTable,
        tree: Option<CommitTree>,
        name: &[u8],
    ) -> anyhow::Result<Self> {
        let url = bucket.url();
        let wrong = |error| wrong(&url, plan.lsn, &error);
        let Some(mut tree) = tree else {
            return Err(none(&url, plan, table, None, name).unwrap_or_else(wrong));
        };
        if let Some(dir) = tree.directory(name).map_err(wrong)? {
            let found = Directory::find(plan, &url, table, &mut tree, dir.ino);
            let (directory, extract) = found.map_err(|error| match error.downcast_ref() {
                Some(error) => self::wrong(&url, plan.lsn, error),
                None => error,
            })?;
            return Ok(Self {
                name: name.to_vec(),
                size_bytes: directory.size_bytes(),
                block_size: u64::from(plan.shape.block_size),
                extract,
                directory: Some(directory),
                companions: Vec::new(),
            });
        }
        let file = match tree.find(name) {
            Err(OfflineError::NotFound(_)) => {
                return Err(none(&url, plan, table, Some(tree), name).unwrap_or_else(wrong));
            }
            found => found.map_err(wrong)?,
        };
        let (mut places, mut failed) = (Vec::new(), None);
        let end = file.inode.size.div_ceil(u64::from(plan.shape.block_size));
        tree.extents(file.ino, end, |at, extent| {
            match table.places(plan, &url, at, extent) {
                Ok(more) => places.extend(more),
                Err(error) => failed = failed.take().or(Some(error)),
            }
        })
        .map_err(wrong)?;
        failed.map_or(Ok(()), Err)?;
        let mut companions = Vec::new();
        for end in COMPANIONS {
            let other = [name, end.as_bytes()].concat();
            match tree.find(&other) {
                Ok(found) if found.inode.size > 0 => {
                    companions.push((end, name_of(table, &other)));
                }
                Err(error @ (OfflineError::Damaged(_) | OfflineError::Page(_))) => {
                    return Err(wrong(error));
                }
                _ => {}
            }
        }
        Ok(Self {
            name: name.to_vec(),
            size_bytes: file.inode.size,
            block_size: u64::from(plan.shape.block_size),
            extract: Extract::at_places(plan, &url, places)?,
            directory: None,
            companions,
        })
    }

    /// Leaves in a plan for the same commit only the objects that are needed.
    pub(super) fn narrow(&self, plan: &mut Plan) {
        plan.objects = plan.objects_of(&self.extract);
    }

    /// Makes the file or directory, empty.
    pub(super) fn create(&self, partial: &Path) -> anyhow::Result<()> {
        if self.directory.is_some() {
            return Directory::create(partial).with_context(|| partial.display().to_string());
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(MODE)
            .open(partial);
        file.map(|_| ())
            .with_context(|| partial.display().to_string())
    }

    /// Applies the objects of the plan after the first `done`.
    pub(super) fn fill(
        &self,
        bucket: &Reader,
        plan: &Plan,
        partial: &Path,
        done: usize,
        noted: impl Fn(usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        if let Some(directory) = &self.directory {
            return self.fill_directory(directory, bucket, plan, partial);
        }
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true);
        let file = options
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(partial);
        let file = file.with_context(|| partial.display().to_string())?;
        file.set_len(self.extract.size_bytes())
            .with_context(|| partial.display().to_string())?;
        let url = bucket.url();
        let apply = |mut plain: Plain, name: String, payload: Vec<u8>, is_noted: bool| {
            let applied = self.extract.apply(&payload, &url, &name, &mut plain);
            applied.with_context(|| partial.display().to_string())?;
            if is_noted {
                plain.0.sync_all()?;
            }
            Ok(plain)
        };
        let plain = fetch::apply(bucket, plan, done, Plain(file), apply, noted)?;
        plain
            .0
            .set_len(self.size_bytes)
            .with_context(|| partial.display().to_string())?;
        Ok(plain.0.sync_all()?)
    }

    /// Applies the objects of the plan. An interrupted one begins anew: to make thousands of files durable takes longer than to
    /// read the objects again.
    fn fill_directory(
        &self,
        directory: &Directory,
        bucket: &Reader,
        plan: &Plan,
        partial: &Path,
    ) -> anyhow::Result<()> {
        let (url, shown) = (bucket.url(), || partial.display().to_string());
        let parts = directory.begin(partial, self.block_size)?;
        let apply = |mut parts, name: String, payload: Vec<u8>, _| {
            let applied = self.extract.apply(&payload, &url, &name, &mut parts);
            applied.with_context(shown)?;
            Ok(parts)
        };
        fetch::apply(bucket, plan, 0, parts, apply, |_| Ok(()))?;
        directory.finish(partial)
    }

    /// Says what is restored.
    pub(super) fn report_restored(
        &self,
        arguments: &Restore,
        plan: &Plan,
        done: &str,
    ) -> anyhow::Result<()> {
        let path = report::shell_word(&arguments.path);
        if arguments.json {
            let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
            let companions = self.companions.iter().map(|(_, name)| text(name));
            return report::json(&serde_json::json!({
                "archive": arguments.url,
                "file": arguments.path.display().to_string(),
                "name": text(&self.name),
                "restored": !arguments.dry_run,
                "lsn": plan.lsn.0,
                "size_bytes": self.size_bytes,
                "objects": plan.objects.len(),
                "files": self.directory.as_ref().map(Directory::count),
                "companions": companions.collect::<Vec<_>>(),
            }));
        }
        report::line(format_args!(
            "{done} {} of commit {} in {}: {}, from {} objects",
            path_text(&self.name),
            plan.lsn,
            arguments.path.display(),
            size::text(self.size_bytes),
            report::count(plan.objects.len() as u64)
        ))?;
        if let Some(directory) = self.directory.as_ref().filter(|made| made.skipped > 0) {
            report::note(format_args!(
                "{} devices, FIFOs and sockets are left out",
                report::count(directory.skipped)
            ));
        }
        for (end, name) in &self.companions {
            report::note(format_args!(
                "{} has a part of its content; restore it, too: tonearm restore {} {path}{end} --only {} --to-lsn {}",
                path_text(name),
                arguments.url,
                report::shell_word(Path::new(OsStr::from_bytes(name))),
                plan.lsn
            ));
        }
        Ok(())
    }
}

/// The volume of this name. A name with a leading slash is that of a file of the tree.
fn volume<'a>(table: &'a VolumeTable, name: &[u8]) -> Option<&'a VolumeEntry> {
    let mut volumes = table.volumes.iter();
    volumes.find(|entry| entry.name.as_bytes() == name)
}

/// The name with which `--only` takes a file of the tree: its path, with a leading slash if a volume has this name.
fn name_of(table: &VolumeTable, path: &[u8]) -> Vec<u8> {
    match volume(table, path) {
        Some(_) => [b"/", path].concat(),
        None => path.to_vec(),
    }
}

/// The error for a name that is not there.
fn none(
    url: &str,
    plan: &Plan,
    table: &VolumeTable,
    tree: Option<CommitTree>,
    name: &[u8],
) -> Result<anyhow::Error, OfflineError> {
    let path = name.strip_prefix(b"/");
    let mut nearest = Nearest::new(path.unwrap_or(name));
    if path.is_none() {
        let volumes = table.volumes.iter();
        volumes.for_each(|volume| nearest.add(volume.name.as_bytes()));
    }
    if let Some(mut tree) = tree {
        tree.siblings(name, |path| nearest.add(path))?;
    }
    let what = match path {
        None => "volume or file",
        Some(_) => "file",
    };
    Ok(anyhow!(
        "archive {url}: at commit {} there is no {what} {}; {}",
        plan.lsn,
        path_text(name),
        nearest.text(url)
    ))
}

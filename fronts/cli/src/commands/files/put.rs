//! `tonearm files put`: one file, several, or folders.

mod local;

use self::local::{Item, Kind};
use super::copy::{Bar, Copying, Stop};
use super::names::make_all;
use super::one_file::{name_of, open, report_copy};
use super::outcome::Outcome;
use super::tree;
use crate::cli::FilesPut;
use anyhow::{Context, anyhow, bail};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use tonearm_store::files::{Files, FilesError, FilesErrorKind, NewAttr};

/// Copies what the user names into the store.
///
/// # Errors
/// When nothing, or not everything before a failure, could be copied.
pub fn put(arguments: &FilesPut) -> anyhow::Result<ExitCode> {
    for path in &arguments.files {
        if !arguments.recursive && path.is_dir() {
            bail!(
                "{} is a folder; `tonearm files put -r` copies it with everything below it",
                path.display()
            );
        }
    }
    match &arguments.files[..] {
        [file] if !arguments.recursive || file == Path::new("-") => put_one(arguments, file),
        all => {
            if all.iter().any(|path| path == Path::new("-")) {
                bail!("standard input cannot be copied together with files; put it alone");
            }
            put_all(arguments)
        }
    }
}

fn put_one(arguments: &FilesPut, path: &Path) -> anyhow::Result<ExitCode> {
    let is_input = path == Path::new("-");
    if is_input && arguments.name.is_none() {
        bail!("standard input has no name; give one: --name PATH")
    }
    let own = if is_input { None } else { name_of(path).ok() };
    let (source, total): (Box<dyn std::io::Read>, _) = if is_input {
        (Box::new(std::io::stdin().lock()), None)
    } else {
        let cannot = || format!("cannot read {}", path.display());
        let file = std::fs::File::open(path).with_context(cannot)?;
        let about = file.metadata().with_context(cannot)?;
        (Box::new(file), about.is_file().then_some(about.len()))
    };
    let stop = Stop::on_signals()?;
    let files = open(&arguments.store)?;
    let name = match &arguments.name {
        Some(given) => tree::place(&*files, given, own.as_deref())?,
        None => name_of(path)?,
    };
    let copying = Copying {
        name: &name,
        total,
        replace: arguments.force,
        stop: &stop,
    };
    let bytes = copying.write(&*files, source)?;
    let (json, shown) = (arguments.store.json, path.display().to_string());
    report_copy(json, &format!("{shown} -> {name}"), &name, &shown, bytes)?;
    Ok(ExitCode::SUCCESS)
}

fn put_all(arguments: &FilesPut) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let files = open(&arguments.store)?;
    let sources = arguments
        .files
        .iter()
        .map(|path| path.display().to_string());
    let mut outcome = Outcome::new(sources.collect::<Vec<_>>().join(", "), String::new());
    let mut items = Vec::new();
    for path in &arguments.files {
        let to = destination(&*files, arguments, path)?;
        if arguments.files.len() == 1 {
            outcome.to = to.clone();
        }
        local::walk(path, &to, &arguments.store.path, &mut items, &mut outcome)?;
    }
    if arguments.files.len() > 1 {
        outcome.to = arguments.name.clone().unwrap_or_else(|| "/".to_string());
    }
    check_free(&*files, &items, arguments.force)?;
    if let (true, Some(given)) = (arguments.recursive, &arguments.name) {
        let dir = if given.ends_with('/') {
            given
        } else {
            tree::parent(given)
        };
        make_all(&*files, dir)?;
    }
    let mut tree = TreeIn {
        files: &*files,
        replace: arguments.force,
        keeps_attr: arguments.recursive,
        stop: &stop,
        bar: Bar::new(items.iter().map(Item::bytes).sum()),
        failed: BTreeSet::new(),
    };
    let copied = items
        .iter()
        .try_for_each(|item| tree.copy(item, &mut outcome));
    drop(tree);
    let flushed = files.flush();
    if stop.has_come() {
        bail!(
            "interrupted; {} files were copied, each as a whole; the same command with --force copies all",
            outcome.files
        );
    }
    copied?;
    flushed?;
    outcome.report(arguments.store.json)
}

/// The path in the store for one of the files that the user names.
fn destination(files: &dyn Files, arguments: &FilesPut, path: &Path) -> anyhow::Result<String> {
    let own = name_of(path);
    let Some(given) = &arguments.name else {
        return own;
    };
    // What is in `.` or `/` goes to the path itself.
    if own.is_err() && path.is_dir() && !given.is_empty() {
        return Ok(given.clone());
    }
    let to = tree::place(files, given, own.as_deref().ok())?;
    if arguments.files.len() > 1 && to == *given {
        bail!(
            "{given} is no directory of the store, and several files need one; end the path with / with -r to make it"
        );
    }
    Ok(to)
}

/// Refuses a copy over what exists, and of two files to one path, before anything is copied.
fn check_free(files: &dyn Files, items: &[Item], replace: bool) -> anyhow::Result<()> {
    let (mut missing, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for item in items {
        let to = &item.to;
        if !taken.insert(to) && !matches!(item.kind, Kind::Directory) {
            bail!(
                "two of the files would become {to}; put them one by one, with --name. Nothing was copied"
            );
        }
        let about = if missing.contains(tree::parent(to)) {
            None
        } else {
            tree::find(files, to).with_context(|| format!("cannot look at {to}"))?
        };
        match (&item.kind, about) {
            (_, None) => {
                missing.insert(to.as_str());
            }
            (Kind::Directory, Some(about)) if about.is_dir() => {}
            (Kind::File { .. }, Some(about)) if about.is_file() => refuse(to, replace)?,
            (Kind::Link(_), Some(about)) if about.is_link() => refuse(to, replace)?,
            (kind, Some(about)) => bail!(
                "{to} is {} in the store, and would become {}; remove it, or copy to another path. Nothing was copied",
                tree::kind(about.mode),
                kind.text()
            ),
        }
    }
    Ok(())
}

fn refuse(to: &str, replace: bool) -> anyhow::Result<()> {
    if !replace {
        bail!("{to} is in the store already; --force replaces it. Nothing was copied");
    }
    Ok(())
}

/// A copy into the store that is being made.
struct TreeIn<'a> {
    files: &'a dyn Files,
    replace: bool,
    keeps_attr: bool,
    stop: &'a Stop,
    bar: Bar,
    /// Paths in the store of directories that could not be made.
    failed: BTreeSet<String>,
}

impl TreeIn<'_> {
    /// Copies one item. What concerns it alone goes to `outcome`.
    ///
    /// # Errors
    /// When it makes no sense to go on.
    fn copy(&mut self, item: &Item, outcome: &mut Outcome) -> anyhow::Result<()> {
        self.stop.check()?;
        let is_directory = matches!(item.kind, Kind::Directory);
        let from = item.from.display().to_string();
        if self.failed.contains(tree::parent(&item.to)) {
            if is_directory {
                self.failed.insert(item.to.clone());
            }
            outcome.fail(&from, &anyhow!("its directory was not made"));
            return Ok(());
        }
        let copied = match &item.kind {
            Kind::Directory => self.directory(item).map(|()| outcome.directories += 1),
            Kind::Link(target) => self.link(item, target).map(|()| outcome.links += 1),
            Kind::File { bytes } => self.file(item, *bytes).map(|bytes| {
                outcome.files += 1;
                outcome.size_bytes += bytes;
            }),
        };
        let Err(error) = copied else { return Ok(()) };
        // A full store, and a session that is over, would refuse the next file, too.
        let is_full = error.downcast_ref::<FilesError>().is_some_and(|error| {
            matches!(
                error.kind,
                FilesErrorKind::NoSpace | FilesErrorKind::ReadOnly
            )
        });
        if is_full || self.stop.has_come() || self.files.marks().is_err() {
            return Err(error);
        }
        if is_directory {
            self.failed.insert(item.to.clone());
        }
        outcome.fail(&from, &error);
        Ok(())
    }

    fn directory(&self, item: &Item) -> anyhow::Result<()> {
        if tree::find(self.files, &item.to)?.is_some_and(|about| about.is_dir()) {
            return Ok(());
        }
        self.files.make_dir(&item.to)?;
        let set = self.attr(item, false);
        Ok(self.files.set_attr(&item.to, None, set)?)
    }

    fn link(&self, item: &Item, target: &str) -> anyhow::Result<()> {
        let to = &item.to;
        if self.replace && tree::find(self.files, to)?.is_some_and(|about| about.is_link()) {
            self.files.delete(to)?;
        }
        Ok(self.files.make_link(to, target)?)
    }

    fn file(&mut self, item: &Item, bytes: u64) -> anyhow::Result<u64> {
        let from = item.from.display();
        let source =
            std::fs::File::open(&item.from).with_context(|| format!("cannot read {from}"))?;
        let copying = Copying {
            name: &item.to,
            total: Some(bytes),
            replace: self.replace,
            stop: self.stop,
        };
        let set = self.attr(item, true);
        copying.write_in(self.files, source, set, false, &mut self.bar)
    }

    fn attr(&self, item: &Item, with_time: bool) -> NewAttr {
        if self.keeps_attr {
            NewAttr {
                mode: Some(item.mode),
                modified_unix_s: with_time.then_some(item.modified_unix_s),
            }
        } else {
            NewAttr::default()
        }
    }
}

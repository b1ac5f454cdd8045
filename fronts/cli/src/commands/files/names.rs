//! `tonearm files rm`, `mkdir` and `mv`.

use super::copy::{Stop, open_locked};
use super::one_file::open;
use super::tree;
use crate::cli::{FilesMkdir, FilesMv, FilesRm};
use anyhow::bail;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use tonearm_store::files::{Files, FilesErrorKind, Level};
use tonearm_terminal::report;

#[derive(Serialize)]
struct Removed {
    removed: Vec<String>,
}

/// Removes files, and directories on demand.
///
/// # Errors
/// When one of the names does not exist or is a directory, or a file is in use.
pub fn rm(arguments: &FilesRm) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals()?;
    let files = open(&arguments.store)?;
    let mut names = arguments.names.clone();
    names.sort_by(|one, other| plain(one).cmp(plain(other)));
    names.dedup_by(|one, other| plain(one) == plain(other));
    // All names are looked at first, and the files opened, so that nothing is removed when one cannot be.
    let mut held = Vec::new();
    let mut trees: BTreeMap<String, Vec<tree::Entry>> = BTreeMap::new();
    for name in &names {
        let about = files.look(name)?;
        if trees.keys().any(|tree| is_below(name, tree)) {
            // It goes with the tree.
        } else if about.is_dir() {
            check_directory(name, arguments.recursive)?;
            trees.insert(name.clone(), whole_tree(&*files, name)?);
        } else if about.is_file() {
            held.push(open_locked(&*files, name, Level::Exclusive)?);
        }
    }
    for name in &names {
        let removed = match trees.get(name) {
            Some(entries) => remove_tree(&*files, entries, &stop),
            None if trees.keys().any(|tree| is_below(name, tree)) => Ok(()),
            None => files.delete(name).map_err(Into::into),
        };
        if removed.is_err() {
            files.flush()?;
        }
        removed?;
        if !arguments.store.json {
            report::line(format_args!("removed {}", tree::shown(name)))?;
        }
    }
    held.into_iter().for_each(|file| files.close(file));
    files.flush()?;
    if arguments.store.json {
        report::json(&Removed { removed: names })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A path without the slashes around it.
fn plain(path: &str) -> &str {
    path.trim_matches('/')
}

fn is_below(path: &str, tree: &str) -> bool {
    let below = plain(path).strip_prefix(plain(tree));
    below.is_some_and(|below| below.starts_with('/'))
}

fn check_directory(name: &str, recursive: bool) -> anyhow::Result<()> {
    if !recursive {
        bail!("{name} is a directory; `tonearm files rm -r` removes it with everything in it");
    }
    if tree::name_of(name).is_none() {
        bail!("{name} has no name of its own to remove; name the directories that are to go");
    }
    Ok(())
}

/// What is in a directory, and the directory.
fn whole_tree(files: &dyn Files, root: &str) -> anyhow::Result<Vec<tree::Entry>> {
    let mut first = None;
    let entries = tree::walk(files, root, |path, error| {
        first.get_or_insert((path.to_string(), error));
    })?;
    match first {
        Some((path, error)) => {
            bail!(
                "{root} is not removed, because {} cannot be: {error}",
                tree::shown(&path)
            )
        }
        None => Ok(entries),
    }
}

/// Removes the entries, the last one first.
fn remove_tree(files: &dyn Files, entries: &[tree::Entry], stop: &Stop) -> anyhow::Result<()> {
    for entry in entries.iter().rev() {
        if stop.has_come() {
            bail!("interrupted; a part of {} is removed", entries[0].path);
        }
        let path = &entry.path;
        let file = if entry.info.is_file() {
            Some(open_locked(files, path, Level::Exclusive)?)
        } else {
            None
        };
        let deleted = files.delete(path);
        if let Some(file) = file {
            files.close(file);
        }
        deleted?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Made<'a> {
    path: &'a str,
    made: bool,
}

/// Makes a directory.
///
/// # Errors
/// When it exists, or the directory above it does not, unless `-p` says otherwise.
pub fn mkdir(arguments: &FilesMkdir) -> anyhow::Result<ExitCode> {
    let files = open(&arguments.store)?;
    let path = &arguments.dir;
    let made = if arguments.parents {
        make_all(&*files, path)? > 0
    } else {
        match files.make_dir(path) {
            Ok(()) => true,
            Err(error) if error.kind == FilesErrorKind::NotFound => {
                let above = tree::parent(path);
                bail!(
                    "there is no directory {above} in the store; `tonearm files mkdir -p` makes it, too"
                )
            }
            Err(error) if error.kind == FilesErrorKind::Exists => {
                match tree::find(&*files, path)? {
                    Some(info) => bail!("there is {} {path} already", tree::kind(info.mode)),
                    None => return Err(error.into()),
                }
            }
            Err(error) => return Err(error.into()),
        }
    };
    files.flush()?;
    if arguments.store.json {
        report::json(&Made { path, made })?;
    } else if made {
        report::line(format_args!("made {}", tree::shown(path)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes the directory `path` and those above it, as far as they do not exist. Returns how many were made.
///
/// # Errors
/// When something else than a directory is in the way.
pub fn make_all(files: &dyn Files, path: &str) -> anyhow::Result<usize> {
    let names = path.split('/').filter(|name| !name.is_empty());
    let (mut dir, mut made) = (String::new(), 0);
    for name in names {
        dir = tree::join(&dir, name);
        match tree::find(files, &dir)? {
            Some(info) if info.is_dir() => {}
            Some(info) => bail!(
                "{dir} is {} in the store, no directory",
                tree::kind(info.mode)
            ),
            None => {
                files.make_dir(&dir)?;
                made += 1;
            }
        }
    }
    Ok(made)
}

#[derive(Serialize)]
struct Moved<'a> {
    from: &'a str,
    to: &'a str,
}

/// Gives a file or directory another path.
///
/// # Errors
/// When there is none, or something is at the new path.
pub fn mv(arguments: &FilesMv) -> anyhow::Result<ExitCode> {
    let files = open(&arguments.store)?;
    let from = &arguments.from;
    files.look(from)?;
    let own = tree::name_of(from);
    if own.is_none() {
        bail!("{from} has no name of its own; give the path of what is to be moved");
    }
    let to = tree::place(&*files, &arguments.to, own)?;
    let moved = files.rename(from, &to);
    match moved {
        Err(error) if error.kind == FilesErrorKind::NotFound => {
            bail!(tree::no_directory(tree::parent(&to)))
        }
        moved => moved?,
    }
    files.flush()?;
    if arguments.store.json {
        report::json(&Moved { from, to: &to })?;
    } else {
        report::line(format_args!(
            "{} -> {}",
            tree::shown(from),
            tree::shown(&to)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

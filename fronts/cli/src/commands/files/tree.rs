//! Paths and directories of a store, as the commands on files use them.

use anyhow::{Context, bail};
use tonearm_store::files::{FileInfo, Files, FilesError, FilesErrorKind};

/// Stands for bytes of a name that are not UTF-8.
const REPLACED: char = char::REPLACEMENT_CHARACTER;

/// What is below a directory of a store, or that directory itself.
pub struct Entry {
    /// Path in the store.
    pub path: String,
    /// Path from that directory on; empty for itself.
    pub below: String,
    /// Attributes.
    pub info: FileInfo,
}

/// The path of `name` in the directory `dir`.
pub fn join(dir: &str, name: &str) -> String {
    match dir.trim_end_matches('/') {
        "" if dir.starts_with('/') => format!("/{name}"),
        "" => name.to_string(),
        dir => format!("{dir}/{name}"),
    }
}

/// The path of the directory above; empty for the root directory.
pub fn parent(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

/// The last name of a path; `None` where it has none, as `/` or `a/..`.
pub fn name_of(path: &str) -> Option<&str> {
    let name = path.trim_end_matches('/').rsplit('/').next();
    name.filter(|name| !matches!(*name, "" | "." | ".."))
}

/// What is at `path`, if there is something.
///
/// # Errors
/// As for [`Files::look`].
pub fn find(files: &dyn Files, path: &str) -> Result<Option<FileInfo>, FilesError> {
    match files.look(path) {
        Ok(info) => Ok(Some(info)),
        Err(error) if error.kind == FilesErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where something named `own` goes when the user says `given`: into a directory, or to that path.
///
/// # Errors
/// When `given` is empty, or the store cannot be read.
pub fn place(files: &dyn Files, given: &str, own: Option<&str>) -> anyhow::Result<String> {
    if given.is_empty() {
        bail!("the path in the store is empty; / is the root directory");
    }
    let is_dir = given.ends_with('/') || find(files, given)?.is_some_and(|info| info.is_dir());
    if !is_dir {
        return Ok(given.to_string());
    }
    let own = own.with_context(|| format!("{given} is a directory; give a path with a name"))?;
    Ok(join(given, own))
}

/// The error for a directory that does not exist.
pub fn no_directory(path: &str) -> String {
    format!("there is no directory {path} in the store; `tonearm files mkdir -p` makes it")
}

/// The type of a file, in words.
pub fn kind(mode: u32) -> &'static str {
    match mode >> 12 {
        0o01 => "a FIFO",
        0o02 => "a character device",
        0o04 => "a directory",
        0o06 => "a block device",
        0o10 => "a file",
        0o12 => "a symbolic link",
        0o14 => "a socket",
        _ => "of an unknown type",
    }
}

/// Type and permissions as `ls -l` prints them.
pub fn mode_text(mode: u32) -> String {
    let kind = match mode >> 12 {
        0o01 => 'p',
        0o02 => 'c',
        0o04 => 'd',
        0o06 => 'b',
        0o10 => '-',
        0o12 => 'l',
        0o14 => 's',
        _ => '?',
    };
    let mut text = String::from(kind);
    // Of owner, group and others: the shift of the three bits, the special bit, and its letter.
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// A name or path for a terminal: without control characters.
pub fn shown(name: &str) -> String {
    let plain = |c: char| if c.is_control() { '?' } else { c };
    name.chars().map(plain).collect()
}

/// All that is in the tree at `root`, a directory before what is in it. Calls `bad` for what cannot be named or listed.
///
/// # Errors
/// When there is nothing at `root`, or the session has ended.
pub fn walk(
    files: &dyn Files,
    root: &str,
    mut bad: impl FnMut(&str, FilesError),
) -> anyhow::Result<Vec<Entry>> {
    let info = files.look(root)?;
    let mut found = vec![Entry {
        path: root.to_string(),
        below: String::new(),
        info,
    }];
    let mut next = 0;
    while let Some(entry) = found.get(next) {
        next += 1;
        if !entry.info.is_dir() {
            continue;
        }
        let (dir, below) = (entry.path.clone(), entry.below.clone());
        let listed = match files.list_all(&dir) {
            Ok(listed) => listed,
            Err(error) if next > 1 && files.marks().is_ok() => {
                bad(&dir, error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let mut last: Option<String> = None;
        for info in listed {
            let name = info.name.clone();
            let path = join(&dir, &name);
            let is_twice = last.replace(name.clone()).is_some_and(|last| last == name);
            match usable(files, &path, info, is_twice) {
                Ok(info) => found.push(Entry {
                    path,
                    below: join(&below, &name),
                    info,
                }),
                Err(error) => bad(&path, error),
            }
        }
    }
    Ok(found)
}

/// Checks that the name that was listed is that of the file.
fn usable(
    files: &dyn Files,
    path: &str,
    info: FileInfo,
    is_twice: bool,
) -> Result<FileInfo, FilesError> {
    let name = &info.name;
    if matches!(&name[..], "" | "." | "..") || name.contains(['/', '\0']) {
        let text = "no file may have this name; check the store with `tonearm check`";
        return Err(FilesError::new(FilesErrorKind::Failed, text));
    }
    if !name.contains(REPLACED) {
        return Ok(info);
    }
    let found = if is_twice { None } else { find(files, path)? };
    found.ok_or_else(|| {
        let text = "the name is not UTF-8; use a mount for it (`tonearm mount`)";
        FilesError::new(FilesErrorKind::Failed, text)
    })
}

#[cfg(test)]
#[path = "tree_test.rs"]
mod tree_test;

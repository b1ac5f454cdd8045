//! `tonearm files list`.

use super::one_file::open;
use super::tree;
use crate::cli::FilesList;
use serde::Serialize;
use std::process::ExitCode;
use tonearm_store::files::{FileInfo, Files};
use tonearm_terminal::{report, size};

#[derive(Serialize)]
struct List {
    files: Vec<FileInfo>,
}

/// Lists a directory, or one file.
///
/// # Errors
/// When there is none, or the store cannot be read.
pub fn list(arguments: &FilesList) -> anyhow::Result<ExitCode> {
    let (store, path) = (open(&arguments.store)?, &arguments.dir);
    let about = store.look(path)?;
    let is_dir = about.is_dir();
    let files = if is_dir {
        store.list_all(path)?
    } else {
        vec![about]
    };
    if arguments.store.json {
        report::json(&List { files })?;
    } else if arguments.long {
        let path_of = |info: &FileInfo| {
            if is_dir {
                tree::join(path, &info.name)
            } else {
                path.clone()
            }
        };
        long(&*store, &files, path_of)?;
    } else {
        short(&files)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn short(files: &[FileInfo]) -> anyhow::Result<()> {
    let mut table = report::table(&["file", "size", "bytes", "changed"]);
    for file in files {
        let mut name = tree::shown(&file.name);
        let (mut text, mut bytes) = (size::text(file.size_bytes), report::count(file.size_bytes));
        if file.is_dir() {
            // The size of a directory is a number of names.
            name.push('/');
            (text, bytes) = (String::new(), String::new());
        }
        table.add_row([&name, &text, &bytes, &report::date(file.modified_unix_s)]);
    }
    report::align_right(&mut table, 1..3);
    Ok(report::line(table)?)
}

/// One line for each file, in columns as `ls -l` has them.
fn long(
    store: &dyn Files,
    files: &[FileInfo],
    path_of: impl Fn(&FileInfo) -> String,
) -> anyhow::Result<()> {
    let width = |number: fn(&FileInfo) -> u64| {
        let digits = files.iter().map(|file| number(file).to_string().len());
        digits.max().unwrap_or_default()
    };
    let uids = width(|file| file.uid.into());
    let gids = width(|file| file.gid.into());
    let sizes = width(|file| file.size_bytes);
    for file in files {
        let FileInfo {
            uid,
            gid,
            size_bytes,
            ..
        } = file;
        let (mode, name) = (tree::mode_text(file.mode), tree::shown(&file.name));
        let (time, target) = (
            report::date(file.modified_unix_s),
            target(store, file, &path_of),
        );
        report::line(format_args!(
            "{mode} {uid:>uids$} {gid:>gids$} {size_bytes:>sizes$} {time} {name}{target}"
        ))?;
    }
    Ok(())
}

/// The target of a symbolic link, with an arrow before it.
fn target(store: &dyn Files, file: &FileInfo, path_of: impl Fn(&FileInfo) -> String) -> String {
    if !file.is_link() {
        return String::new();
    }
    match store.read_link(&path_of(file)) {
        Ok(target) => format!(" -> {}", tree::shown(&target)),
        // Not UTF-8, or the name is not.
        Err(_) => " -> ?".to_string(),
    }
}

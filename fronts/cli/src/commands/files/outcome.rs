//! The result of a copy of many files: what was copied, and what was not, with the reasons.

use super::tree;
use crate::commands::exit_code::DAMAGED;
use serde::Serialize;
use std::process::ExitCode;
use tonearm_store::files::{FilesError, FilesErrorKind};
use tonearm_terminal::{report, size};

/// The counts of a copy, and the names that are not in it.
#[derive(Serialize, Default)]
pub struct Outcome {
    /// The source.
    pub from: String,
    /// The destination.
    pub to: String,
    /// Files that were copied.
    pub files: u64,
    /// Directories that were copied or were there.
    pub directories: u64,
    /// Symbolic links that were copied.
    pub links: u64,
    /// Bytes of the files.
    pub size_bytes: u64,
    /// What is neither a file, a directory nor a link.
    pub skipped: Vec<String>,
    /// What could not be copied.
    pub failed: Vec<String>,
    #[serde(skip)]
    is_damaged: bool,
}

impl Outcome {
    /// Nothing is copied yet.
    pub fn new(from: String, to: String) -> Self {
        Self {
            from,
            to,
            ..Self::default()
        }
    }

    /// A note about a special file.
    pub fn skip(&mut self, path: &str, kind: &str) {
        report::note(format_args!("{} is {kind}: skipped", tree::shown(path)));
        self.skipped.push(path.to_string());
    }

    /// Reports what could not be copied.
    pub fn fail(&mut self, path: &str, error: &anyhow::Error) {
        let cause = error.downcast_ref::<FilesError>();
        self.is_damaged |= cause.is_some_and(|cause| cause.kind == FilesErrorKind::Damaged);
        let text = tree::shown(&format!("{error:#}"));
        let path_shown = tree::shown(path);
        if text.contains(&path_shown) {
            report::note(text)
        } else {
            report::note(format_args!("{path_shown}: {text}"))
        }
        self.failed.push(path.to_string());
    }

    /// Prints the result. The exit code reports damage, and about what was not copied.
    ///
    /// # Errors
    /// When standard output is closed.
    pub fn report(&self, json: bool) -> anyhow::Result<ExitCode> {
        if json {
            report::json(self)?;
        } else {
            let mut line = format!(
                "{} -> {}; {}, {}, {}, {}",
                self.from,
                self.to,
                counted(self.files, "file", "files"),
                counted(self.directories, "directory", "directories"),
                counted(self.links, "link", "links"),
                size::text(self.size_bytes)
            );
            for (names, what) in [(&self.skipped, "skipped"), (&self.failed, "not copied")] {
                if !names.is_empty() {
                    line += &format!("; {} {what}", names.len());
                }
            }
            report::line(tree::shown(&line))?;
        }
        Ok(match (self.is_damaged, self.failed.is_empty()) {
            (true, _) => ExitCode::from(DAMAGED),
            (false, false) => ExitCode::FAILURE,
            (false, true) => ExitCode::SUCCESS,
        })
    }
}

fn counted(count: u64, one: &str, more: &str) -> String {
    let what = if count == 1 { one } else { more };
    format!("{} {what}", report::count(count))
}

//! The project's own rules, checked by the tests in `tests/`: which crate may depend on which, how long a file may be,
//! which marks of unfinished work must not be committed, which documents must exist, and which licences dependencies
//! may have.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root folder of the workspace.
///
/// # Panics
/// When this crate does not lie two folders below it.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).expect("the workspace").to_path_buf()
}

/// A file that git tracks, or would track after `git add`.
pub struct Source {
    /// Path relative to the workspace's root.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

impl Source {
    /// True for files that hold only tests. Rules for production code do not apply to them.
    pub fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let folder = |name: &str| self.path.split('/').any(|part| part == name);
        name.ends_with("_test.rs")
            || name == "tests.rs"
            || name == "testing.rs"
            || folder("tests")
            || folder("testing")
            || self.path.starts_with("test/e2e/")
            || self.path.starts_with("test/tidy/")
            || self.path.starts_with("test/vhost-driver/")
    }

    /// Lines of production code with their numbers. Comment lines are left out, and so is everything from the first
    /// inline test module on.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines: Vec<&str> = self.text.lines().collect();
        let inline_tests = lines
            .windows(2)
            .position(|pair| pair[0].trim() == "#[cfg(test)]" && pair[1].trim_end().ends_with('{'));
        let end = inline_tests.unwrap_or(lines.len());
        lines
            .into_iter()
            .take(end)
            .enumerate()
            .map(|(index, line)| (index + 1, line))
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    }
}

/// All text files of the project whose path ends with `ending`.
///
/// # Panics
/// When git cannot list the files.
pub fn sources(ending: &str) -> Vec<Source> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root())
        .output();
    let output = output.expect("git runs");
    assert!(output.status.success(), "git lists the project's files");
    let list = String::from_utf8(output.stdout).expect("paths are text");
    let paths = list.lines().filter(|path| path.ends_with(ending));
    paths
        .filter_map(|path| {
            // Binary files and files that are deleted but not yet committed are skipped.
            let text = fs::read_to_string(root().join(path)).ok()?;
            Some(Source {
                path: path.to_owned(),
                text,
            })
        })
        .collect()
}

/// Fails if there are any `faults`, and prints the rule and then one fault a line.
///
/// # Panics
/// When `faults` is not empty.
pub fn none(rule: &str, faults: &[String]) {
    assert!(faults.is_empty(), "{rule}:\n  {}", faults.join("\n  "));
}

//! The questions to a drive and its answers, which are the whole state of a calibration.
//!
//! The algorithms ask the same questions in the same order when they get the same answers. So a calibration that was
//! interrupted continues when it is started again and first gets the answers of the journal.
//!
//! Invariants:
//! 1. Each answer is valid by itself: an angle is relative to another sector, never to a clock.
//! 2. The file is replaced in one step (temporary file, flush, rename), so a crash leaves the old state or the
//!    new one.

use crate::error::Error;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

const HEAD: &str = "tonearm calibration 1";

/// Questions and answers.
#[derive(Debug, Default)]
pub struct Journal {
    /// The drive and the options, which must be the same when a calibration is resumed.
    subject: String,
    entries: Vec<(String, Vec<f64>)>,
    /// Answers given from the journal so far.
    replayed: usize,
    path: Option<PathBuf>,
    saved: usize,
}

impl Journal {
    /// An empty journal about `subject` (one line), kept in memory or in the file `path`.
    pub fn new(subject: &str, path: Option<PathBuf>) -> Self {
        Self {
            subject: subject.replace('\n', " "),
            path,
            ..Self::default()
        }
    }

    /// The journal in `path`, which must be about `subject`.
    ///
    /// # Errors
    /// When it cannot be read, or is about something else.
    pub fn load(subject: &str, path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(|source| Error::State {
            path: path.into(),
            source,
        })?;
        let foreign = |why: String| Error::ForeignState {
            path: path.into(),
            why,
        };
        let mut journal = Self::new(subject, Some(path.into()));
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(foreign(format!("its first line is not '{HEAD}'")));
        }
        let subject = lines.next().unwrap_or_default();
        if subject != journal.subject {
            return Err(foreign(format!("it is of '{subject}'")));
        }
        for (number, line) in lines.enumerate() {
            let broken = || foreign(format!("line {} is damaged", number + 3));
            let (question, answer) = line.split_once(" = ").ok_or_else(broken)?;
            let answer: Result<Vec<f64>, _> = answer.split(' ').map(str::parse).collect();
            let answer = answer.map_err(|_| broken())?;
            journal.entries.push((question.into(), answer));
        }
        journal.saved = journal.entries.len();
        Ok(journal)
    }

    /// The next answer of an earlier run, if there is one. It must belong to the same question.
    ///
    /// # Errors
    /// When the earlier run asked another question here.
    pub fn recall(&mut self, question: &str) -> Result<Option<Vec<f64>>, Error> {
        let Some((asked, answer)) = self.entries.get(self.replayed) else {
            return Ok(None);
        };
        if asked != question {
            return Err(Error::ForeignState {
                path: self.path.clone().unwrap_or_default(),
                why: format!("it answers '{asked}' where '{question}' is asked"),
            });
        }
        self.replayed += 1;
        Ok(Some(answer.clone()))
    }

    /// Notes a new answer.
    pub fn note(&mut self, question: String, answer: Vec<f64>) {
        self.entries.push((question, answer));
        self.replayed = self.entries.len();
    }

    /// Number of answers.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without any answer.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts all answers on stable storage, if the journal has a file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&mut self) -> Result<(), Error> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        if self.saved == self.entries.len() && path.exists() {
            return Ok(());
        }
        let mut text = format!("{HEAD}\n{}\n", self.subject);
        for (question, answer) in &self.entries {
            text.push_str(question);
            text.push_str(" =");
            for value in answer {
                text.push_str(&format!(" {value}"));
            }
            text.push('\n');
        }
        replace(path, text.as_bytes()).map_err(|source| Error::State {
            path: path.clone(),
            source,
        })?;
        self.saved = self.entries.len();
        Ok(())
    }

    /// Answers that a crash now would lose.
    pub fn unsaved(&self) -> usize {
        self.entries.len() - self.saved
    }
}

/// Replaces the content of the file `path` by `content` in one step: a crash leaves the old file or the new one.
///
/// # Errors
/// When the temporary file cannot be written, flushed or renamed.
pub fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

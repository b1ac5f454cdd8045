//! Progress on standard error, for work that takes more than a second.
//!
//! Shorter work shows nothing. If standard error is not a terminal, one line says that the work takes longer.

use crate::report;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

const QUIET: Duration = Duration::from_secs(1);

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Items.
    Count,
    /// Parts of the whole.
    Share,
}

/// A bar that appears after a second.
pub struct Progress {
    what: &'static str,
    unit: Unit,
    step: &'static str,
    since: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Progress that shows nothing yet. `what` names the work, as in "recovering".
    pub fn new(what: &'static str, unit: Unit) -> Self {
        Self {
            what,
            unit,
            step: "",
            since: Instant::now(),
            bar: None,
        }
    }

    /// So much of so much is done.
    pub fn at(&mut self, done: u64, total: u64) {
        if self.bar.is_none() {
            if self.since.elapsed() < QUIET {
                return;
            }
            self.bar = Some(self.show());
        }
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done.min(total));
        }
    }

    /// What of the whole is being done now.
    pub fn step(&mut self, step: &'static str) {
        if let Some(bar) = &self.bar
            && self.step != step
        {
            self.step = step;
            bar.set_message(format!("{}: {step}", self.what));
        }
    }

    fn show(&self) -> ProgressBar {
        if !std::io::stderr().is_terminal() {
            report::note(format_args!("{} takes a while ...", self.what));
            return ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        }
        let counts = match self.unit {
            Unit::Bytes => "{binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}",
            Unit::Count => "{human_pos}/{human_len}",
            Unit::Share => "{percent}%",
        };
        let style = format!("{{msg}} [{{wide_bar}}] {counts} {{eta}}");
        let style = ProgressStyle::with_template(&style).expect("a fixed template");
        ProgressBar::no_length()
            .with_style(style)
            .with_message(self.what)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

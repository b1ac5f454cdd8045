//! One line on a terminal that is rewritten, for work without an end in sight.

use crate::program;
use std::fmt::Arguments;
use std::io::{IsTerminal, Write, stderr};

/// A line on standard error, if that is a terminal. It is cleared at the end.
#[derive(Default)]
pub struct StatusLine {
    shown: bool,
}

impl StatusLine {
    /// Shows `text` in the place of the text before.
    pub fn show(&mut self, text: Arguments<'_>) {
        if stderr().is_terminal() {
            self.shown = true;
            // A failure here cannot be reported.
            let _ = write!(stderr(), "\r{}: {text}\x1b[K", program::name());
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

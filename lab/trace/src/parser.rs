//! What each format implements.

use crate::error::Reason;
use crate::sink::Sink;

/// The parser of a format.
pub(crate) trait Parser {
    /// Takes a line that is neither empty nor a comment.
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Reason>;

    /// Ends the file and returns what is left.
    fn end(&mut self, _sink: &mut Sink) {}
}

//! Lines of a file, gzipped or not, each with a bounded length.

use crate::error::LINE_BYTES_MAX;
use flate2::bufread::MultiGzDecoder;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// How a gzip file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The reason why there is no line.
pub(crate) enum LineError {
    Io(io::Error),
    Long,
}

/// Lines one after the other.
pub(crate) struct Lines<'a> {
    /// The file, until the first line is read, so that an error of the file also has a line.
    file: Option<Box<dyn BufRead + 'a>>,
    text: Box<dyn BufRead + 'a>,
    line: Vec<u8>,
    number: u64,
}

impl<'a> Lines<'a> {
    pub fn new(file: impl BufRead + 'a) -> Self {
        Self {
            file: Some(Box::new(file)),
            text: Box::new(io::empty()),
            line: Vec::new(),
            number: 0,
        }
    }

    /// Number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line, without its end; none at the end of the file.
    pub fn next(&mut self) -> Result<Option<&[u8]>, LineError> {
        self.number += 1;
        if let Some(file) = self.file.take() {
            self.text = unpack(file).map_err(LineError::Io)?;
        }
        self.line.clear();
        let limit = LINE_BYTES_MAX as u64 + 1;
        let read = (&mut self.text)
            .take(limit)
            .read_until(b'\n', &mut self.line);
        match read.map_err(LineError::Io)? {
            0 => Ok(None),
            count if count > LINE_BYTES_MAX => Err(LineError::Long),
            _ => {
                let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                let mark = if self.number == 1 { "\u{feff}" } else { "" };
                Ok(Some(line.strip_prefix(mark.as_bytes()).unwrap_or(line)))
            }
        }
    }
}

fn unpack<'a>(mut file: Box<dyn BufRead + 'a>) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut head = Vec::new();
    (&mut file).take(GZIP.len() as u64).read_to_end(&mut head)?;
    let packed = head == GZIP;
    let whole = Cursor::new(head).chain(file);
    Ok(if packed {
        Box::new(BufReader::new(MultiGzDecoder::new(whole)))
    } else {
        Box::new(whole)
    })
}

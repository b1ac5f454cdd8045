//! A text file that is the output of a command.

use anyhow::Context;
use std::fmt::Arguments;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The output file. It gets its name when it is complete, unless the name is that of a device or a pipe.
pub struct Output {
    file: BufWriter<Box<dyn Write>>,
    path: PathBuf,
    /// The unfinished file.
    part: Option<PathBuf>,
}

impl Output {
    /// Begins the file; `-` is standard output.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let (file, part): (Box<dyn Write>, _) = if path.as_os_str() == "-" {
            (Box::new(std::io::stdout()), None)
        } else if path.exists() && !path.is_file() {
            let file = File::options().write(true).open(path);
            (Box::new(file.with_context(|| cannot_write(path))?), None)
        } else {
            let mut part = path.as_os_str().to_os_string();
            part.push(".part");
            let part = PathBuf::from(part);
            let file = File::create(&part).with_context(|| cannot_write(path))?;
            (Box::new(file), Some(part))
        };
        Ok(Self {
            file: BufWriter::with_capacity(1 << 16, file),
            path: path.to_path_buf(),
            part,
        })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn line(&mut self, text: Arguments<'_>) -> anyhow::Result<()> {
        let written = self.file.write_fmt(text);
        let written = written.and_then(|()| self.file.write_all(b"\n"));
        written.with_context(|| cannot_write(&self.path))
    }

    /// Ends the file and gives it its name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(mut self) -> anyhow::Result<()> {
        self.file
            .flush()
            .with_context(|| cannot_write(&self.path))?;
        if let Some(part) = &self.part {
            std::fs::rename(part, &self.path).with_context(|| cannot_write(&self.path))?;
            self.part = None;
        }
        Ok(())
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // An earlier error is the one to report.
            let _ = std::fs::remove_file(part);
        }
    }
}

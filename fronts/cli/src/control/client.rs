//! The client of the control socket.

use super::protocol::{ANSWER_MAX, Answer, Event, EventLine, Request, RequestLine, VERSION};
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tonearm_store::socket_of;
use tonearm_uring::connect_unix;

/// A connection to the control socket of a server.
pub struct Client {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

impl Client {
    /// Connects to the server of the store at `store`, or at socket `control`; `None` when there is none.
    ///
    /// # Errors
    /// When there may be a server, and it cannot be reached.
    pub fn find(store: &Path, control: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let path = control.map_or_else(|| socket_of(store, "ctl"), Path::to_path_buf);
        match connect_unix(&path) {
            Ok(stream) => Ok(Some(Self {
                stream: BufReader::new(stream),
                path,
            })),
            Err(error)
                if control.is_none()
                    && matches!(
                        error.kind(),
                        ErrorKind::NotFound | ErrorKind::ConnectionRefused
                    ) =>
            {
                Ok(None)
            }
            // The store's name is so long that no socket can have it: its server listens elsewhere, if there is one.
            Err(error) if control.is_none() && error.kind() == ErrorKind::InvalidInput => Ok(None),
            Err(error) => Err(error).with_context(|| {
                format!(
                    "cannot reach the server at its control socket {}",
                    path.display()
                )
            }),
        }
    }

    /// As [`Client::find`], for requests that only a server can answer.
    ///
    /// # Errors
    /// When there is no server. The error says what to do.
    pub fn need(store: &Path, control: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(client) = Self::find(store, control)? {
            return Ok(client);
        }
        if !store.exists() {
            bail!("{} does not exist; check the path", store.display());
        }
        if let Some(process) = tonearm_store::holder(store) {
            bail!(
                "process {process} has {} open, and has no control socket at {}: use the name of the store that this process \
                 was given (a hard link or another mount is another name), or name its control socket with --control",
                store.display(),
                socket_of(store, "ctl").display()
            );
        }
        bail!(
            "{} is not being served here; start `tonearm serve {}` first, or name its control socket with --control",
            store.display(),
            store.display()
        )
    }

    /// Sends a request, reports to `progress`, and waits for the answer.
    ///
    /// # Errors
    /// The server's error, or that the server is gone.
    pub fn ask(
        &mut self,
        request: Request,
        mut progress: impl FnMut(u64, u64),
    ) -> anyhow::Result<Answer> {
        let line = RequestLine {
            tonearm: VERSION,
            request,
        };
        let mut text = serde_json::to_string(&line)?;
        text.push('\n');
        let sent = self.stream.get_mut().write_all(text.as_bytes());
        // As text: the error "broken pipe" itself would end the program as if the reader of its results had gone.
        if let Err(error) = sent {
            bail!("{}: {error}", self.gone());
        }
        loop {
            let mut text = Vec::new();
            let mut limited = (&mut self.stream).take(ANSWER_MAX as u64);
            let received = limited.read_until(b'\n', &mut text);
            received.with_context(|| self.gone())?;
            if text.is_empty() {
                bail!("{}", self.gone());
            }
            let line: EventLine = serde_json::from_slice(&text).with_context(|| {
                format!(
                    "the server at {} speaks another protocol",
                    self.path.display()
                )
            })?;
            match line.event {
                Event::Progress { done, total } => progress(done, total),
                Event::Done(answer) => return Ok(answer),
                Event::Failed(why) => bail!("{why}"),
            }
        }
    }

    fn gone(&self) -> String {
        format!("the server at {} has gone away", self.path.display())
    }
}

#[cfg(test)]
#[path = "client_test.rs"]
mod client_test;

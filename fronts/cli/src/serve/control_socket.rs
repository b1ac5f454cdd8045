//! The server's end of the control socket: small threads that pass requests to the engine thread.

use super::mailbox::Mailbox;
use super::socket_file::SocketFile;
use crate::control::{Answer, Event, EventLine, REQUEST_MAX, Request, RequestLine, VERSION};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Most connections at a time.
const CONNECTIONS_MAX: usize = 32;
/// Longest time in which a client takes a part of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked whether a client is still there while it waits.
const HANG_UP_CHECK_EVERY: Duration = Duration::from_millis(200);

/// Listens at `path`, for its owner alone, and passes requests to `mailbox`.
///
/// # Errors
/// When the socket cannot be bound.
pub fn start(path: &Path, mailbox: Mailbox) -> anyhow::Result<SocketFile> {
    let open = Arc::new(());
    SocketFile::listen(path, "control", move |stream| {
        if Arc::strong_count(&open) > CONNECTIONS_MAX {
            let _ = send(
                &stream,
                Event::Failed("too many control connections are open".into()),
            );
            return;
        }
        let (mailbox, open) = (mailbox.clone(), open.clone());
        // Without a thread the connection is closed.
        let _ = std::thread::Builder::new()
            .name("control-client".into())
            .spawn(move || {
                // An error of one connection concerns its client alone.
                let _ = serve(stream, &mailbox);
                drop(open);
            });
    })
}

fn serve(stream: UnixStream, mailbox: &Mailbox) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut reader = BufReader::new(&stream);
    let mut recording = Recording {
        mailbox,
        runs: false,
    };
    loop {
        let mut line = Vec::new();
        let read = (&mut reader)
            .take(REQUEST_MAX as u64)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            return send(
                &stream,
                Event::Failed("the request is too long or not ended".into()),
            );
        }
        match parse(&line) {
            Ok(Request::TraceTake | Request::TraceStop) if !recording.runs => {
                let why = "this connection records nothing; it begins with trace-start";
                send(&stream, Event::Failed(why.into()))?;
            }
            Ok(request) => {
                let stops = request == Request::TraceStop;
                let mut asked = mailbox.ask(request);
                while !asked.has_ended() {
                    match asked.within(HANG_UP_CHECK_EVERY) {
                        Some(event) => {
                            recording.runs |= matches!(event, Event::Done(Answer::TraceStarted(_)));
                            send(&stream, event)?;
                        }
                        None if has_hung_up(&stream) => return Ok(()),
                        None => {}
                    }
                }
                recording.runs &= !stops;
            }
            Err(why) => send(&stream, Event::Failed(why))?,
        }
    }
}

/// True when the client has closed its end. One that only sends nothing more still waits for its answer.
fn has_hung_up(stream: &UnixStream) -> bool {
    let mut ends = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec::default();
    let looked = rustix::event::poll(&mut ends, Some(&now));
    looked.is_ok()
        && ends[0]
            .revents()
            .intersects(PollFlags::HUP | PollFlags::ERR)
}

/// The recording of requests that a connection has started. It ends with the connection.
struct Recording<'a> {
    mailbox: &'a Mailbox,
    runs: bool,
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if self.runs {
            self.mailbox.ask(Request::TraceStop).for_each(drop);
        }
    }
}

fn parse(line: &[u8]) -> Result<Request, String> {
    let value: serde_json::Value = serde_json::from_slice(line)
        .map_err(|error| format!("the request is not JSON: {error}"))?;
    match value.get("tonearm").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(format!(
                "this server speaks version {VERSION} of the control protocol, not {version}; \
                 use the `tonearm` of the server's version"
            ));
        }
        None => return Err("the request has no version".into()),
    }
    let line: RequestLine = serde_json::from_value(value)
        .map_err(|error| format!("the request is not known: {error}"))?;
    Ok(line.request)
}

fn send(mut stream: &UnixStream, event: Event) -> io::Result<()> {
    let mut text = serde_json::to_string(&EventLine {
        tonearm: VERSION,
        event,
    })?;
    text.push('\n');
    stream.write_all(text.as_bytes())
}

#[cfg(test)]
#[path = "control_socket_test.rs"]
mod control_socket_test;

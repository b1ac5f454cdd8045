//! An HTTP/1.0 responder for one page, on a loopback address or a Unix socket.

use super::text;
use crate::control::{Answer, Event, Request};
use crate::serve::mailbox::Mailbox;
use crate::serve::socket_file::SocketFile;
use anyhow::{Context, bail};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Longest request head, in bytes.
const HEAD_MAX: usize = 8 << 10;
/// Longest time for one request.
const DEADLINE: Duration = Duration::from_secs(5);

/// Where metrics are to be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A loopback address.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                bail!("--metrics unix: needs a path");
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let numeric = text.replace("localhost:", "127.0.0.1:");
        let address: SocketAddr = numeric.parse().ok().with_context(|| {
            format!("--metrics {text}: write 127.0.0.1:PORT, [::1]:PORT or unix:PATH")
        })?;
        if !address.ip().is_loopback() {
            bail!(
                "--metrics {text}: metrics are not protected, so they are given on loopback addresses alone; \
                 use 127.0.0.1:{} or a Unix socket",
                address.port()
            );
        }
        Ok(Self::Tcp(address))
    }
}

/// A running responder.
pub struct Responder {
    /// Where it is, for people.
    pub url: String,
    _file: Option<SocketFile>,
}

trait Stream: Read + Write + Send {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

impl Stream for UnixStream {
    fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))?;
        self.set_write_timeout(Some(timeout))
    }
}

impl Responder {
    /// Listens at `address`; each page is made of counters that `mailbox` is asked for.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn start(address: &Address, mailbox: Mailbox) -> anyhow::Result<Self> {
        let thread = std::thread::Builder::new().name("metrics".into());
        match address {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)
                    .with_context(|| format!("cannot listen on {address} for metrics"))?;
                let url = format!("http://{}/metrics", listener.local_addr()?);
                thread.spawn(move || respond_all(|| accept_tcp(&listener), &mailbox))?;
                Ok(Self { url, _file: None })
            }
            Address::Unix(path) => {
                let (listener, file) = SocketFile::bind(path)?;
                thread.spawn(move || respond_all(|| accept_unix(&listener), &mailbox))?;
                Ok(Self {
                    url: format!("unix:{} /metrics", path.display()),
                    _file: Some(file),
                })
            }
        }
    }
}

fn accept_tcp(listener: &TcpListener) -> io::Result<Box<dyn Stream>> {
    Ok(Box::new(listener.accept()?.0))
}

fn accept_unix(listener: &UnixListener) -> io::Result<Box<dyn Stream>> {
    Ok(Box::new(listener.accept()?.0))
}

/// One request after the other: a scrape takes a moment, and each has a deadline.
fn respond_all(accept: impl Fn() -> io::Result<Box<dyn Stream>>, mailbox: &Mailbox) {
    loop {
        match accept() {
            Ok(stream) => {
                // How a connection ends is the client's affair.
                let _ = respond(stream, || scrape(mailbox));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn scrape(mailbox: &Mailbox) -> Result<String, String> {
    match mailbox.ask(Request::Stats).last() {
        Some(Event::Done(Answer::Stats(stats))) => {
            text::render(&stats).map_err(|error| error.to_string())
        }
        Some(Event::Failed(why)) => Err(why),
        _ => Err("the engine gave another answer".into()),
    }
}

fn respond(
    mut stream: Box<dyn Stream>,
    page: impl FnOnce() -> Result<String, String>,
) -> io::Result<()> {
    let head = read_head(stream.as_mut())?;
    let mut words = head.split_whitespace();
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = target.split('?').next().unwrap_or("");
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => match page() {
            Ok(text) => ("200 OK", text::CONTENT_TYPE, text),
            Err(why) => (
                "503 Service Unavailable",
                "text/plain; charset=utf-8",
                why + "\n",
            ),
        },
        ("GET" | "HEAD", _) => (
            "404 Not Found",
            "text/plain; charset=utf-8",
            "see /metrics\n".into(),
        ),
        _ => (
            "405 Method Not Allowed",
            "text/plain; charset=utf-8",
            "only GET is known\n".into(),
        ),
    };
    let mut answer = format!(
        "HTTP/1.0 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    if method != "HEAD" {
        answer.push_str(&body);
    }
    stream.write_all(answer.as_bytes())
}

/// The request up to its empty line; the first line is all that counts.
fn read_head(stream: &mut dyn Stream) -> io::Result<String> {
    let deadline = Instant::now() + DEADLINE;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > HEAD_MAX {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_timeout(left)?;
        let read = stream.read(&mut part)?;
        head.extend_from_slice(&part[..read]);
        let ended = head.windows(4).any(|end| end == b"\r\n\r\n")
            || head.windows(2).any(|end| end == b"\n\n");
        if read == 0 || ended {
            return Ok(String::from_utf8_lossy(&head).into_owned());
        }
    }
}

#[cfg(test)]
#[path = "http_test.rs"]
mod http_test;

//! An HTTP/1.0 responder for one page, on a loopback address or a Unix socket.

use super::text;
use crate::control::{Answer, Event, Request};
use crate::serve::mailbox::Mailbox;
use crate::serve::socket_file::{SocketFile, accept_all};
use anyhow::{Context, bail};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Longest request head, in bytes.
const HEAD_MAX: usize = 8 << 10;
/// Longest time for one request.
const DEADLINE: Duration = Duration::from_secs(5);

/// Where metrics are served.
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
    /// Its address, for people.
    pub url: String,
    _file: Option<SocketFile>,
}

impl Responder {
    /// Listens at `address`. For each page it asks `mailbox` for the counters. Requests are answered one after the
    /// other: a scrape is short, and each has a deadline.
    ///
    /// # Errors
    /// When the address is not available.
    pub fn start(address: &Address, mailbox: Mailbox) -> anyhow::Result<Self> {
        let answer = move |stream: OwnedFd| {
            // An error of one connection concerns its client alone.
            let _ = respond(stream.into(), || scrape(&mailbox));
        };
        Ok(match address {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)
                    .with_context(|| format!("cannot listen on {address} for metrics"))?;
                let url = format!("http://{}/metrics", listener.local_addr()?);
                accept_all("metrics", move || Ok(listener.accept()?.0.into()), answer)?;
                Self { url, _file: None }
            }
            Address::Unix(path) => Self {
                url: format!("unix:{} /metrics", path.display()),
                _file: Some(SocketFile::listen(path, "metrics", move |stream| {
                    answer(stream.into());
                })?),
            },
        })
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

/// Answers the request of a socket.
fn respond(mut stream: File, page: impl FnOnce() -> Result<String, String>) -> io::Result<()> {
    let head = read_head(&mut stream)?;
    let mut words = head.split_whitespace();
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = target.split('?').next().unwrap_or("");
    let (status, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => match page() {
            Ok(text) => ("200 OK", text),
            Err(why) => ("503 Service Unavailable", why + "\n"),
        },
        ("GET" | "HEAD", _) => ("404 Not Found", "see /metrics\n".into()),
        _ => ("405 Method Not Allowed", "only GET is known\n".into()),
    };
    let kind = match status {
        "200 OK" => text::CONTENT_TYPE,
        _ => "text/plain; charset=utf-8",
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

/// The request up to its empty line. Only the first line is used.
fn read_head(stream: &mut File) -> io::Result<String> {
    let deadline = Instant::now() + DEADLINE;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > HEAD_MAX {
            return Err(ErrorKind::TimedOut.into());
        }
        for direction in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&stream, direction, Some(left))?;
        }
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

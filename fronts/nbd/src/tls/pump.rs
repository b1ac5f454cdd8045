//! Moves plaintext between a TLS connection and one end of a socket pair.
//!
//! One thread per connection runs [`pump`] until both directions are finished.
//!
//! Invariants:
//!
//! 1. Each direction holds at most one chunk of plaintext and its records: a
//!    side that does not read stops the other side.
//! 2. The thread sleeps unless a descriptor that it waits for can make progress. Other descriptors are not in the poll
//!    set, because poll(2) reports a hang-up even without interest.
//! 3. The client gets a close_notify after the last byte, unless the network failed. A client that does not read cannot
//!    hold a closed connection for longer than [`FLUSH_TIMEOUT`].

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown,
};
use rustls::ServerConnection;

/// Bytes moved at once in each direction.
const CHUNK_BYTES: usize = 64 << 10;
/// How long the last bytes may take to leave once the local side has closed.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for the client to close after our close_notify, so that
/// closing the socket does not reset what is still on its way.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Carries `tls` over `net`, with its plaintext at `local`, until the local
/// side closes or the network fails. Both are sockets; their blocking mode does
/// not matter and is not changed.
///
/// Ends in an error when the network or TLS failed; the local side has then
/// seen the end of the stream.
pub fn pump(tls: ServerConnection, net: OwnedFd, local: OwnedFd) -> io::Result<()> {
    let mut pump = Pump {
        tls,
        net,
        local,
        records: Buffer::new(),
        inbound: Buffer::new(),
        inbound_open: true,
        closing: false,
        flush_deadline: None,
    };
    pump.tls.set_buffer_limit(None);
    pump.run()
}

struct Pump {
    tls: ServerConnection,
    net: OwnedFd,
    local: OwnedFd,
    /// Records read from the network, not yet given to TLS.
    records: Buffer,
    /// Plaintext from the client, not yet taken by the local side.
    inbound: Buffer,
    /// Whether more may come from the client.
    inbound_open: bool,
    /// The local side has sent its last byte; close_notify is queued.
    closing: bool,
    /// Set when the local side is gone.
    flush_deadline: Option<Instant>,
}

impl Pump {
    fn run(&mut self) -> io::Result<()> {
        let mut scratch = vec![0; CHUNK_BYTES];
        loop {
            // Both directions, until neither moves.
            loop {
                let inbound = self.step_inbound()?;
                let outbound = self.step_outbound(&mut scratch)?;
                if !inbound && !outbound {
                    break;
                }
            }
            if self.closing && !self.tls.wants_write() {
                shutdown(&self.net, Shutdown::Write)?;
                return self.linger(&mut scratch);
            }
            self.wait()?;
        }
    }

    /// Moves client bytes one step; whether anything moved.
    fn step_inbound(&mut self) -> io::Result<bool> {
        if !self.inbound_open {
            return Ok(false);
        }
        if !self.inbound.is_empty() {
            return match send(&self.local, self.inbound.rest(), send_flags()) {
                Ok(sent) => {
                    self.inbound.consume(sent);
                    Ok(true)
                }
                Err(errno) if would_block(errno) => Ok(false),
                // The local side does not read any more; what it still sends
                // goes out.
                Err(_) => {
                    self.end_inbound();
                    Ok(true)
                }
            };
        }
        match self.inbound.fill(|space| self.tls.reader().read(space)) {
            // close_notify, or the end of the network stream without it.
            Ok(0) => {
                self.end_inbound();
                return Ok(true);
            }
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.end_inbound();
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if self.records.is_empty() {
            let net = &self.net;
            match self.records.fill(|space| receive(net, space)) {
                // Tell TLS about the end: its reader then reports it.
                Ok(0) => {
                    self.tls.read_tls(&mut io::empty())?;
                    return Ok(true);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    self.end_inbound();
                    return Err(error);
                }
            }
        }
        let mut rest = self.records.rest();
        let taken = self.tls.read_tls(&mut rest)?;
        self.records.consume(taken);
        if let Err(error) = self.tls.process_new_packets() {
            // The alert says why. The connection is lost either way.
            let _ = self.tls.write_tls(&mut Net(&self.net));
            self.end_inbound();
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(true)
    }

    /// Moves server bytes one step; whether anything moved.
    fn step_outbound(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        if self.tls.wants_write() {
            return match self.tls.write_tls(&mut Net(&self.net)) {
                Ok(_) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
                Err(error) => Err(error),
            };
        }
        if self.closing {
            return Ok(false);
        }
        match receive(&self.local, scratch) {
            Ok(0) => self.close(),
            Ok(got) => self.tls.writer().write_all(&scratch[..got])?,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // The local side has closed with bytes unread: no reply follows.
            Err(_) => self.close(),
        }
        Ok(true)
    }

    /// Notes that no more bytes come from the client: the local side sees the end.
    fn end_inbound(&mut self) {
        self.inbound_open = false;
        self.inbound.clear();
        // Fails only when the local side is gone.
        let _ = shutdown(&self.local, Shutdown::Write);
    }

    /// Notes that no more bytes come from the local side: queued bytes are sent, and then a close_notify.
    fn close(&mut self) {
        self.closing = true;
        self.tls.send_close_notify();
        self.flush_deadline
            .get_or_insert_with(|| Instant::now() + FLUSH_TIMEOUT);
        if self.inbound_open {
            self.end_inbound();
        }
    }

    /// Sleeps until a descriptor that the pump waits for is ready.
    fn wait(&mut self) -> io::Result<()> {
        let mut net = PollFlags::empty();
        let mut local = PollFlags::empty();
        if self.inbound_open && self.inbound.is_empty() {
            net |= PollFlags::IN;
        }
        if self.tls.wants_write() {
            net |= PollFlags::OUT;
        } else if !self.closing {
            local |= PollFlags::IN;
        }
        if !self.inbound.is_empty() {
            local |= PollFlags::OUT;
        }
        let mut fds = Vec::with_capacity(2);
        if !net.is_empty() {
            fds.push(PollFd::new(&self.net, net));
        }
        // While the pump expects nothing of the local side, it must still notice its closing once. Otherwise a client
        // that never reads could keep the thread.
        let watch_local = !local.is_empty() || self.flush_deadline.is_none();
        if watch_local {
            fds.push(PollFd::new(&self.local, local));
        }
        let timeout = match self.flush_deadline {
            None => None,
            Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                None => return Err(io::ErrorKind::TimedOut.into()),
                Some(left) => Some(timespec(left)),
            },
        };
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let gone = PollFlags::HUP | PollFlags::ERR;
        if watch_local
            && fds
                .last()
                .is_some_and(|local| local.revents().intersects(gone))
        {
            self.flush_deadline
                .get_or_insert_with(|| Instant::now() + FLUSH_TIMEOUT);
        }
        Ok(())
    }

    /// Reads and drops what the client still sends until it closes.
    fn linger(&self, scratch: &mut [u8]) -> io::Result<()> {
        let deadline = Instant::now() + LINGER_TIMEOUT;
        loop {
            match receive(&self.net, scratch) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => {}
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Ok(());
            };
            let mut fds = [PollFd::new(&self.net, PollFlags::IN)];
            match poll(&mut fds, Some(&timespec(left))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// One chunk on its way.
struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    fn new() -> Buffer {
        Buffer {
            bytes: vec![0; CHUNK_BYTES],
            start: 0,
            end: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    fn consume(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.end, "consumed more than there was");
    }

    fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }

    /// Refills an empty buffer with one read.
    fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<usize> {
        assert!(self.is_empty(), "a chunk is filled when it is used up");
        self.clear();
        self.end = read(&mut self.bytes)?;
        Ok(self.end)
    }
}

/// The network as a writer that never blocks.
struct Net<'a>(&'a OwnedFd);

impl Write for Net<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, bytes, send_flags())?)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut no_control = SendAncillaryBuffer::default();
        Ok(sendmsg(self.0, slices, &mut no_control, send_flags())?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn receive(fd: &OwnedFd, space: &mut [u8]) -> io::Result<usize> {
    loop {
        match recv(fd, &mut *space, RecvFlags::DONTWAIT) {
            Ok((got, _)) => return Ok(got),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn send_flags() -> SendFlags {
    SendFlags::DONTWAIT | SendFlags::NOSIGNAL
}

fn would_block(errno: Errno) -> bool {
    errno == Errno::AGAIN || errno == Errno::INTR
}

pub(crate) fn timespec(duration: Duration) -> Timespec {
    // A fraction of a nanosecond cannot be lost, so a sleep never ends early
    // enough to spin.
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

//! A minimal NBD client with simple replies. It is small enough that tests know exactly what was acknowledged. Source:
//! the NBD protocol document, fixed newstyle negotiation.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Signature of an option, "IHAVEOPT".
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Signature of a request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// The option NBD_OPT_GO.
pub const OPT_GO: u32 = 7;
/// Commands.
pub const CMD_READ: u16 = 0;
/// Write.
pub const CMD_WRITE: u16 = 1;
/// Flush.
pub const CMD_FLUSH: u16 = 3;
/// Trim.
pub const CMD_TRIM: u16 = 4;
/// The flag of a durable write.
pub const FLAG_FUA: u16 = 1;

/// A connection in the transmission phase.
pub struct Client {
    stream: UnixStream,
    cookie: u64,
    /// Size of the export in bytes.
    pub size: u64,
}

/// The header of a request, 28 bytes.
pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// The client's flags (fixed newstyle, no zeroes) and NBD_OPT_GO for an export.
pub fn go(export: &str) -> Vec<u8> {
    let mut bytes = 3u32.to_be_bytes().to_vec();
    bytes.extend(OPTION_MAGIC.to_be_bytes());
    bytes.extend(OPT_GO.to_be_bytes());
    bytes.extend((export.len() as u32 + 6).to_be_bytes());
    bytes.extend((export.len() as u32).to_be_bytes());
    bytes.extend(export.as_bytes());
    bytes.extend(0u16.to_be_bytes());
    bytes
}

impl Client {
    /// Connects and negotiates.
    ///
    /// # Errors
    /// When there is no server, or it refuses the export.
    pub fn connect(socket: &Path, export: &str) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        let greeting: [u8; 18] = array(&mut stream)?;
        if &greeting[..8] != b"NBDMAGIC" {
            return Err(io::Error::other("no NBD server"));
        }
        stream.write_all(&go(export))?;
        let mut size = 0;
        loop {
            let head: [u8; 20] = array(&mut stream)?;
            assert_eq!(u64_at(&head, 0), OPTION_REPLY_MAGIC);
            let kind = u32_at(&head, 12);
            let mut payload = vec![0; u32_at(&head, 16) as usize];
            stream.read_exact(&mut payload)?;
            match kind {
                1 => break,
                3 if payload[..2] == [0, 0] => size = u64_at(&payload, 2),
                3 => {}
                error => {
                    let text = String::from_utf8_lossy(&payload).into_owned();
                    return Err(io::Error::other(format!("refused, {error:#x}: {text}")));
                }
            }
        }
        Ok(Self {
            stream,
            cookie: 0,
            size,
        })
    }

    /// Sends a request and its payload. `reply` waits for the reply.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn send(
        &mut self,
        (command, flags): (u16, u16),
        offset: u64,
        length: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        self.cookie += 1;
        let mut bytes = request(command, flags, self.cookie, offset, length);
        bytes.extend_from_slice(payload);
        self.stream.write_all(&bytes)
    }

    /// Waits for the reply to the last request.
    ///
    /// # Errors
    /// When the connection is lost, or with the errno of the reply.
    pub fn reply(&mut self) -> io::Result<()> {
        let head: [u8; 16] = array(&mut self.stream)?;
        assert_eq!(u32_at(&head, 0), REPLY_MAGIC);
        assert_eq!(
            u64_at(&head, 8),
            self.cookie,
            "an answer to another request"
        );
        match u32_at(&head, 4) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error as i32)),
        }
    }

    /// Writes `data` at an offset and waits for the reply.
    ///
    /// # Errors
    /// The errors of [`Client::reply`].
    pub fn write(&mut self, offset: u64, bytes: &[u8], flags: u16) -> io::Result<()> {
        self.send((CMD_WRITE, flags), offset, bytes.len() as u32, bytes)?;
        self.reply()
    }

    /// Reads a range.
    ///
    /// # Errors
    /// The errors of [`Client::reply`].
    pub fn read(&mut self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        self.send((CMD_READ, 0), offset, length, &[])?;
        self.reply()?;
        let mut bytes = vec![0; length as usize];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Flushes the export.
    ///
    /// # Errors
    /// The errors of [`Client::reply`].
    pub fn flush(&mut self) -> io::Result<()> {
        self.send((CMD_FLUSH, 0), 0, 0, &[])?;
        self.reply()
    }

    /// Trims a range.
    ///
    /// # Errors
    /// The errors of [`Client::reply`].
    pub fn trim(&mut self, offset: u64, length: u32) -> io::Result<()> {
        self.send((CMD_TRIM, 0), offset, length, &[])?;
        self.reply()
    }

    /// The stream, for tests of clients that violate the protocol.
    pub fn stream(&mut self) -> &mut UnixStream {
        &mut self.stream
    }
}

fn array<const N: usize>(stream: &mut UnixStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

//! A small NBD client with blocking I/O. It fills targets, and makes loads that fio's nbd engine cannot make: batches
//! with one flush, and FUA.

use crate::content::Content;
use anyhow::{Context, bail};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const COMMAND_WRITE: u16 = 1;
const COMMAND_FLUSH: u16 = 3;
const FLAG_FUA: u16 = 1;
const BLOCK: usize = 4096;
const MIB: usize = 1 << 20;

/// A connection to an export.
pub struct Client {
    stream: UnixStream,
    /// Size of the export.
    pub size_bytes: u64,
    content: Content,
    out: Vec<u8>,
}

impl Client {
    /// Opens an export.
    ///
    /// # Errors
    /// When there is no server, or no such export.
    pub fn connect(socket: &Path, export: &str) -> anyhow::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        if greeting[..16] != *b"NBDMAGICIHAVEOPT" {
            bail!("no NBD server");
        }
        // The client sends the flags "fixed newstyle" and "no zeroes", and then NBD_OPT_EXPORT_NAME.
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend_from_slice(b"IHAVEOPT");
        hello.extend_from_slice(&1u32.to_be_bytes());
        hello.extend_from_slice(&(export.len() as u32).to_be_bytes());
        hello.extend_from_slice(export.as_bytes());
        stream.write_all(&hello)?;
        let mut answer = [0; 10];
        stream
            .read_exact(&mut answer)
            .context("the server refuses the export")?;
        let size: [u8; 8] = answer[..8].try_into()?;
        Ok(Self {
            stream,
            size_bytes: u64::from_be_bytes(size),
            content: Content::new(),
            out: Vec::new(),
        })
    }

    /// Chooses another sequence of random addresses.
    pub fn seed(&mut self, seed: u64) {
        self.content.seed(seed);
    }

    /// Writes the whole export once and flushes.
    ///
    /// # Errors
    /// When a request fails.
    pub fn fill(&mut self) -> anyhow::Result<()> {
        let (mut offset, mut open) = (0, 0);
        while offset < self.size_bytes {
            let length = (MIB as u64).min(self.size_bytes - offset) as usize;
            self.push(COMMAND_WRITE, 0, offset, length);
            self.send()?;
            open += 1;
            if open == 4 {
                self.replies(1)?;
                open -= 1;
            }
            offset += length as u64;
        }
        self.replies(open)?;
        self.flush()
    }

    /// Repeats for `span`: `count` random writes of 4 KiB at once, wait for the replies, then a flush. Returns the
    /// numbers of writes and flushes.
    ///
    /// # Errors
    /// When a request fails.
    pub fn batches(&mut self, count: usize, span: Duration) -> anyhow::Result<(u64, u64)> {
        let (began, mut writes, mut flushes) = (Instant::now(), 0, 0);
        while began.elapsed() < span {
            self.write_random(count, 0)?;
            self.flush()?;
            writes += count as u64;
            flushes += 1;
        }
        Ok((writes, flushes))
    }

    /// Repeats for `span`: one random FUA write of 4 KiB at a time. Returns the number of writes.
    ///
    /// # Errors
    /// When a request fails.
    pub fn fua(&mut self, span: Duration) -> anyhow::Result<u64> {
        let (began, mut writes) = (Instant::now(), 0);
        while began.elapsed() < span {
            self.write_random(1, FLAG_FUA)?;
            writes += 1;
        }
        Ok(writes)
    }

    /// Sends `count` random writes of 4 KiB at once and waits for their replies.
    ///
    /// # Errors
    /// When a request fails.
    pub fn write_random(&mut self, count: usize, flags: u16) -> anyhow::Result<()> {
        for _ in 0..count {
            let block = self.content.random() % (self.size_bytes / BLOCK as u64);
            self.push(COMMAND_WRITE, flags, block * BLOCK as u64, BLOCK);
        }
        self.send()?;
        self.replies(count)
    }

    /// Makes every answered write durable.
    ///
    /// # Errors
    /// When the flush fails.
    pub fn flush(&mut self) -> anyhow::Result<()> {
        self.push(COMMAND_FLUSH, 0, 0, 0);
        self.send()?;
        self.replies(1)
    }

    fn push(&mut self, command: u16, flags: u16, offset: u64, length: usize) {
        self.out.extend_from_slice(&REQUEST_MAGIC.to_be_bytes());
        self.out.extend_from_slice(&flags.to_be_bytes());
        self.out.extend_from_slice(&command.to_be_bytes());
        self.out.extend_from_slice(&offset.to_be_bytes());
        self.out.extend_from_slice(&offset.to_be_bytes());
        self.out.extend_from_slice(&(length as u32).to_be_bytes());
        if command == COMMAND_WRITE {
            self.out.extend_from_slice(self.content.next(length));
        }
    }

    fn send(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    fn replies(&mut self, count: usize) -> anyhow::Result<()> {
        let mut replies = vec![0; 16 * count];
        self.stream.read_exact(&mut replies)?;
        for reply in replies.chunks_exact(16) {
            let magic: [u8; 4] = reply[..4].try_into()?;
            if u32::from_be_bytes(magic) != REPLY_MAGIC || reply[4..8] != [0; 4] {
                bail!("a request failed");
            }
        }
        Ok(())
    }
}

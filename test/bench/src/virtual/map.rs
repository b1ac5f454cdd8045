//! Memory of the segments layout when every block of a large store is mapped.
//!
//! The home runs alone, without the engine's payload (`--memory`). Each block is written once, in order, in calls of
//! [`CALL_BLOCKS`] blocks that share one buffer. Then some random blocks are overwritten and some are read. The device
//! keeps checkpoints and map pages in a temporary file, and returns the one content that all blocks have for everything
//! else. It does not keep segment summaries, so segments cannot be cleaned.

use crate::blocks::BLOCK;
use anyhow::ensure;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos, Slice, crc32c};
use tonearm_bench::{Random, machine};
use tonearm_device::RawDevice;
use tonearm_format::{SegmentLayout, segments_for};
use tonearm_layout::{
    Home, HomeBlock, Piece, Plugging, Policy, Reader, Segments, SegmentsMember, SegmentsOptions,
};
use tonearm_rt::{Completion, Data, DeviceId, Driver, IoError, Op, Request, Rt};

/// Blocks of one call of write-back: 32 MiB, as in a round of the engine under pressure.
const CALL_BLOCKS: u64 = 8192;
const SEGMENT_BYTES: u32 = 1 << 20;
const RSS_MAX: u64 = 192 << 20;

#[derive(clap::Args)]
pub struct Args {
    /// GiB of the store
    #[arg(long, default_value_t = 1024)]
    gib: u64,
    /// MiB of map pages in memory
    #[arg(long, default_value_t = 64)]
    map_cache_mib: usize,
    /// Blocks that are overwritten at random in the end, and as many that are read
    #[arg(long, default_value_t = 200_000)]
    random: u64,
}

/// Maps every block of a store, and prints how much memory that takes.
///
/// # Errors
/// When the home fails, returns a wrong block, or takes more than 192 MiB.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let blocks = args.gib << 18;
    let segments = segments_for(4096, SEGMENT_BYTES, blocks, 10);
    let layout = SegmentLayout {
        block_size: 4096,
        segment_bytes: SEGMENT_BYTES,
        segments,
    };
    let first_segment = layout.checkpoint_bytes();
    let size = first_segment + segments * u64::from(SEGMENT_BYTES);
    let (rt, pool) = (
        Rt::new(Box::new(Sparse::new(first_segment)?)),
        BufPool::new(4 << 20),
    );
    let options = SegmentsOptions {
        store: *b"a tebibyte in it",
        block_size: 4096,
        segment_bytes: SEGMENT_BYTES,
        size_blocks: blocks,
        map_cache_bytes: args.map_cache_mib << 20,
        policy: Policy::CostAge,
        plugging: Plugging::default(),
        placement: tonearm_format::Placement::Append,
        separation_interval: tonearm_base::Nanos::from_secs(1200),
        given: None,
        writes_while_reading: 8,
        read_only: false,
    };
    let before = machine::peak_bytes(std::process::id());
    let (own, random) = (rt.clone(), args.random);
    rt.block_on(async move {
        let raw = RawDevice::new(&own, DeviceId(0), size, 4096, "sparse");
        let member = SegmentsMember {
            device: Rc::new(raw),
            first_segment,
            segments,
        };
        let open = async || Segments::open(&own, &pool, vec![member.clone()], &options).await;
        Segments::create(&own, &pool, vec![member.clone()], &options).await?;
        let home = open().await?;
        let data = pool.copy_of(&content()).share();
        for first in (0..blocks).step_by(CALL_BLOCKS as usize) {
            let call = first..blocks.min(first + CALL_BLOCKS);
            home.write_back(Vec::new(), of(call, &data)).await?;
        }
        report("every block is mapped", before, &home);
        home.close().await?;
        drop(home);
        let home = open().await?;
        report("closed and opened again", before, &home);
        let mut places = Random(1);
        for _ in 0..random / CALL_BLOCKS + 1 {
            let mut some: Vec<u64> = (0..CALL_BLOCKS).map(|_| places.below(blocks)).collect();
            some.sort_unstable();
            some.dedup();
            home.write_back(Vec::new(), of(some, &data)).await?;
        }
        for _ in 0..random {
            let pieces = home.read(places.below(blocks), 1, Reader::Client).await?;
            ensure!(
                matches!(&pieces[..], [Piece::Data(read)] if **read == *data),
                "a block reads wrong"
            );
        }
        report("overwritten and read at random", before, &home);
        home.close().await?;
        anyhow::Ok(())
    })?;
    rt.shut_down();
    let peak = machine::peak_bytes(std::process::id());
    ensure!(
        peak < RSS_MAX,
        "{peak} bytes resident are more than {RSS_MAX}"
    );
    Ok(())
}

fn report(what: &str, before: u64, home: &Segments) {
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    let stats = home.stats();
    println!(
        "{what}: at most {:.1} MiB resident ({:.1} before), map cache {:.1} MiB, {:.1} % of {} segments live, {} free; \
         {:.1} GiB written, {} map pages written, {} read, {} checkpoints",
        mib(machine::peak_bytes(std::process::id())),
        mib(before),
        mib(stats.map_cache_bytes as u64),
        100.0 * stats.segments.live_blocks as f64
            / (stats.segments.count * stats.segments.segment_blocks) as f64,
        stats.segments.count,
        stats.segments.free_segments,
        mib(stats.write_bytes) / 1024.0,
        stats.table_writes,
        stats.table_loads,
        stats.segments.checkpoints
    );
}

fn content() -> Vec<u8> {
    (0..BLOCK).map(|at| (at % 251) as u8).collect()
}

fn of(blocks: impl IntoIterator<Item = u64>, data: &Slice) -> Vec<HomeBlock> {
    let crc = crc32c(data);
    let home = |block| HomeBlock {
        block,
        data: data.clone(),
        crc,
    };
    blocks.into_iter().map(home).collect()
}

/// A device of any size that takes no time and keeps everything but block contents, in a sparse file.
struct Sparse {
    /// Bytes in front of the segments. All of them are kept.
    front: u64,
    file: File,
    content: Vec<u8>,
    done: Vec<Completion>,
    now: Nanos,
}

impl Sparse {
    fn new(front: u64) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("tonearm-map-{}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        fs::remove_file(&path)?;
        Ok(Self {
            front,
            file,
            content: content(),
            done: Vec::new(),
            now: Nanos::default(),
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        for (at, block) in (offset..).step_by(BLOCK).zip(data.chunks(BLOCK)) {
            if at < self.front || block.starts_with(b"TAMAP") {
                self.file.write_all_at(block, at)?;
            }
        }
        Ok(())
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        for (at, block) in (offset..).step_by(BLOCK).zip(buf.chunks_mut(BLOCK)) {
            block.fill(0);
            // Bytes beyond the end of the file are zeroes.
            let mut read = 0;
            while read < block.len() {
                match self.file.read_at(&mut block[read..], at + read as u64)? {
                    0 => break,
                    more => read += more,
                }
            }
            if at >= self.front && tonearm_base::is_zero(block) {
                block.copy_from_slice(&self.content);
            }
        }
        Ok(())
    }

    fn perform(&self, op: Op, offset: u64, data: &mut Data) -> io::Result<()> {
        match (op, data) {
            (Op::Read, Data::Buf(buf, range)) => self.read(offset, &mut buf[range.clone()]),
            (Op::Write | Op::WriteDurable, Data::Buf(buf, range)) => {
                self.write(offset, &buf[range.clone()])
            }
            (Op::Write | Op::WriteDurable, Data::Slices(slices)) => {
                let mut at = offset;
                for slice in slices {
                    self.write(at, slice)?;
                    at += slice.len() as u64;
                }
                Ok(())
            }
            (Op::Flush, _) => Ok(()),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Driver for Sparse {
    fn now(&self) -> Nanos {
        self.now
    }

    fn submit(&mut self, token: u64, request: Request) {
        let Request {
            op,
            offset,
            mut data,
            ..
        } = request;
        let result = self.perform(op, offset, &mut data);
        let result = result.map(|()| data.len()).map_err(|_| IoError::EIO);
        self.done.push(Completion {
            token,
            result,
            data,
        });
    }

    fn wait(&mut self, deadline: Option<Nanos>, completions: &mut Vec<Completion>) {
        if self.done.is_empty() {
            self.now = deadline.unwrap_or(self.now).max(self.now);
        }
        completions.append(&mut self.done);
    }
}

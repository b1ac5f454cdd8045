//! Measures what this machine's storage costs through io_uring, and which way of flushing is the fastest.
//!
//! `cargo run --release -p tonearm-uring --example latency -- [FILE] [ROUNDS]`
//!
//! Writes FILE (1 GiB, default `target/latency.bin`) in full unless it is there, then measures with
//! O_DIRECT. The variants of one question run in turn in each of ROUNDS rounds (default 7), so that other load of the
//! machine affects all of them. The figures are medians over all rounds.

use io_uring::{IoUring, opcode, squeue, types};
use rustix::fs::{Mode, OFlags};
use rustix::io::ReadWriteFlags;
use std::error::Error;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;
use tonearm_base::{Buf, BufPool};
use tonearm_rt::{Data, DeviceId, Op, Request, Rt};
use tonearm_uring::UringDriver;

const FILE_BYTES: u64 = 1 << 30;
const MIB: usize = 1 << 20;
/// `user_data` of a flush; writes and reads use the index of their buffer.
const FLUSH: u64 = u64::MAX;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().unwrap_or_else(|| "target/latency.bin".into());
    let rounds: usize = args.next().map_or(Ok(7), |text| text.parse())?;
    let mut bench = Bench::open(&path)?;
    println!("file {path}, {rounds} rounds; latencies in us (median, 95%), rates in operations/s");
    bench.flush_ways(rounds)?;
    bench.rates("random 4K read", &[1, 32], 4096, Access::RandomRead, rounds)?;
    let depths = [32, 64, 128];
    bench.rates(
        "random 4K write",
        &depths,
        4096,
        Access::RandomWrite,
        rounds,
    )?;
    let depths = [1, 2, 4, 8];
    bench.rates(
        "sequential 1M write",
        &depths,
        MIB,
        Access::SequentialWrite,
        rounds,
    )?;
    bench.flush_under_load(rounds)?;
    bench.flush_after_holes(&format!("{path}.sparse"), rounds)?;
    through_the_executor(&bench, rounds)
}

#[derive(Clone, Copy, PartialEq)]
enum Access {
    RandomRead,
    RandomWrite,
    SequentialWrite,
}

/// Ways to make one small write durable.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// A write and an fsync through the ring, one after the other. The flush runs on a kernel worker.
    RingWriteRingFlush,
    /// The same two operations, linked, with one system call for both.
    RingLinked,
    /// Write by the ring, then fdatasync(2).
    RingWriteInlineFlush,
    /// Write with RWF_DSYNC by the ring.
    RingDurable,
    /// pwritev2(2) with RWF_DSYNC.
    InlineDurable,
    /// pwritev2(2), then fdatasync(2).
    InlineWriteInlineFlush,
    /// The write alone, by the ring, for comparison.
    RingWriteAlone,
}

const WAYS: [Way; 7] = [
    Way::RingWriteRingFlush,
    Way::RingLinked,
    Way::RingWriteInlineFlush,
    Way::RingDurable,
    Way::InlineDurable,
    Way::InlineWriteInlineFlush,
    Way::RingWriteAlone,
];

struct Bench {
    /// Declared first, because the ring must be dropped before the buffers into which it writes.
    ring: IoUring,
    fd: OwnedFd,
    buffers: Vec<Buf>,
    random: u64,
    next: u64,
}

impl Bench {
    fn open(path: &str) -> Result<Self, Box<dyn Error>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::DIRECT;
        let fd = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        let pool = BufPool::new(0);
        let mut buffers: Vec<Buf> = (0..128).map(|_| pool.alloc(MIB)).collect();
        for (index, buffer) in buffers.iter_mut().enumerate() {
            buffer.fill(index as u8 + 1);
        }
        if rustix::fs::fstat(&fd)?.st_size as u64 != FILE_BYTES {
            for offset in (0..FILE_BYTES).step_by(MIB) {
                let written = rustix::io::pwrite(&fd, &buffers[0], offset)?;
                assert_eq!(written, MIB, "a short write");
            }
            rustix::fs::fsync(&fd)?;
        }
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        Ok(Self {
            ring: builder.build(256)?,
            fd,
            buffers,
            random: 1,
            next: 0,
        })
    }

    fn offset(&mut self, len: usize, access: Access) -> u64 {
        let places = FILE_BYTES / len as u64;
        if access == Access::SequentialWrite {
            self.next = (self.next + 1) % places;
            return self.next * len as u64;
        }
        let multiplier = 6_364_136_223_846_793_005;
        self.random = self.random.wrapping_mul(multiplier).wrapping_add(1);
        (self.random >> 33) % places * len as u64
    }

    fn push(&mut self, entry: &squeue::Entry) {
        // SAFETY: every entry names `fd` and at most one buffer of `buffers`, which live as long as
        // the ring, and no two entries under way read into one buffer.
        unsafe { self.ring.submission().push(entry) }.expect("fewer entries than the queue holds");
    }

    fn write_entry(&self, buffer: usize, len: usize, offset: u64, flags: i32) -> squeue::Entry {
        let data = self.buffers[buffer].as_ptr();
        opcode::Write::new(types::Fd(self.fd.as_raw_fd()), data, len as u32)
            .offset(offset)
            .rw_flags(flags)
            .build()
            .user_data(buffer as u64)
    }

    fn read_entry(&mut self, buffer: usize, len: usize, offset: u64) -> squeue::Entry {
        let data = self.buffers[buffer].as_mut_ptr();
        opcode::Read::new(types::Fd(self.fd.as_raw_fd()), data, len as u32)
            .offset(offset)
            .build()
            .user_data(buffer as u64)
    }

    fn flush_entry(&self) -> squeue::Entry {
        opcode::Fsync::new(types::Fd(self.fd.as_raw_fd()))
            .flags(types::FsyncFlags::DATASYNC)
            .build()
            .user_data(FLUSH)
    }

    /// Waits for `count` completions; their `user_data`.
    fn reap(&mut self, count: usize) -> std::io::Result<Vec<u64>> {
        self.ring.submit_and_wait(count)?;
        self.ring
            .completion()
            .map(|entry| match entry.result() {
                error if error < 0 => Err(std::io::Error::from_raw_os_error(-error)),
                _ => Ok(entry.user_data()),
            })
            .collect()
    }

    fn durable_write(&mut self, way: Way, len: usize) -> Result<(), Box<dyn Error>> {
        let offset = self.offset(len, Access::RandomWrite);
        let flags = if let Way::RingDurable = way {
            libc::RWF_DSYNC
        } else {
            0
        };
        let write = self.write_entry(0, len, offset, flags);
        match way {
            Way::RingWriteRingFlush => {
                self.push(&write);
                self.reap(1)?;
                let flush = self.flush_entry();
                self.push(&flush);
                self.reap(1)?;
            }
            Way::RingLinked => {
                let flush = self.flush_entry();
                self.push(&write.flags(squeue::Flags::IO_LINK));
                self.push(&flush);
                self.reap(2)?;
            }
            Way::RingWriteInlineFlush => {
                self.push(&write);
                self.reap(1)?;
                rustix::fs::fdatasync(&self.fd)?;
            }
            Way::RingDurable | Way::RingWriteAlone => {
                self.push(&write);
                self.reap(1)?;
            }
            Way::InlineDurable | Way::InlineWriteInlineFlush => {
                let data = [IoSlice::new(&self.buffers[0][..len])];
                let flags = match way {
                    Way::InlineDurable => ReadWriteFlags::DSYNC,
                    _ => ReadWriteFlags::empty(),
                };
                rustix::io::pwritev2(&self.fd, &data, offset, flags)?;
                if let Way::InlineWriteInlineFlush = way {
                    rustix::fs::fdatasync(&self.fd)?;
                }
            }
        }
        Ok(())
    }

    fn flush_ways(&mut self, rounds: usize) -> Result<(), Box<dyn Error>> {
        for len in [4096, 8192] {
            let mut spans = vec![Vec::new(); WAYS.len()];
            for _ in 0..rounds {
                for (index, way) in WAYS.into_iter().enumerate() {
                    for _ in 0..150 {
                        let start = Instant::now();
                        self.durable_write(way, len)?;
                        spans[index].push(micros(start));
                    }
                }
            }
            for (way, spans) in WAYS.iter().zip(&mut spans) {
                let (median, high) = quantiles(spans);
                println!(
                    "{len:>5} B durable {way:<24?} {median:>8.1} {high:>8.1}",
                    way = format!("{way:?}")
                );
            }
        }
        Ok(())
    }

    /// Keeps `depth` operations under way until `count` have ended. Returns operations a second.
    fn rate(
        &mut self,
        depth: usize,
        len: usize,
        access: Access,
        count: usize,
    ) -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        let (mut free, mut started, mut ended) = ((0..depth).collect::<Vec<_>>(), 0, 0);
        while ended < count {
            while started < count
                && let Some(buffer) = free.pop()
            {
                let offset = self.offset(len, access);
                let entry = match access {
                    Access::RandomRead => self.read_entry(buffer, len, offset),
                    _ => self.write_entry(buffer, len, offset, 0),
                };
                self.push(&entry);
                started += 1;
            }
            let reaped = self.reap(1)?;
            ended += reaped.len();
            free.extend(reaped.into_iter().map(|buffer| buffer as usize));
        }
        Ok(count as f64 / start.elapsed().as_secs_f64())
    }

    fn rates(
        &mut self,
        name: &str,
        depths: &[usize],
        len: usize,
        access: Access,
        rounds: usize,
    ) -> Result<(), Box<dyn Error>> {
        let mut rates = vec![Vec::new(); depths.len()];
        for _ in 0..rounds {
            for (index, depth) in depths.iter().enumerate() {
                let count = if len == MIB {
                    128
                } else {
                    1000 * (*depth).min(8)
                };
                rates[index].push(self.rate(*depth, len, access, count)?);
            }
        }
        for (depth, rates) in depths.iter().zip(&mut rates) {
            let (median, _) = quantiles(rates);
            let mib = median * len as f64 / MIB as f64;
            println!("{name:<20} depth {depth:>3}: {median:>9.0}/s {mib:>8.1} MiB/s");
        }
        Ok(())
    }

    /// A flush while 16 writes are under way, through the ring and inline. At least 64 writes end during each flush, so
    /// both ways do the same work unless a flush takes longer than them. The printed number of writes for each flush
    /// shows this.
    fn flush_under_load(&mut self, rounds: usize) -> Result<(), Box<dyn Error>> {
        let mut spans = [Vec::new(), Vec::new()];
        let mut rates = [Vec::new(), Vec::new()];
        let mut shares = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for inline in [false, true] {
                let start = Instant::now();
                let (mut free, mut writes) = ((0..16).collect::<Vec<_>>(), 0usize);
                for _ in 0..40 {
                    let began = Instant::now();
                    if !inline {
                        let entry = self.flush_entry();
                        self.push(&entry);
                    }
                    let mut flushed = false;
                    let mut ended_here = 0;
                    while !flushed || ended_here < 64 {
                        while let Some(buffer) = free.pop() {
                            let offset = self.offset(4096, Access::RandomWrite);
                            let entry = self.write_entry(buffer, 4096, offset, 0);
                            self.push(&entry);
                        }
                        if inline && !flushed {
                            self.ring.submit()?;
                            rustix::fs::fdatasync(&self.fd)?;
                            flushed = true;
                            spans[1].push(micros(began));
                        }
                        for ended in self.reap(1)? {
                            if ended == FLUSH {
                                flushed = true;
                                spans[0].push(micros(began));
                            } else {
                                free.push(ended as usize);
                                writes += 1;
                                ended_here += 1;
                            }
                        }
                    }
                }
                let left = 16 - free.len();
                self.reap(left)?;
                rates[usize::from(inline)].push(writes as f64 / start.elapsed().as_secs_f64());
                shares[usize::from(inline)].push(writes as f64 / 40.0);
            }
        }
        for (name, index) in [("ring", 0), ("inline", 1)] {
            let (median, high) = quantiles(&mut spans[index]);
            let (rate, _) = quantiles(&mut rates[index]);
            let (share, _) = quantiles(&mut shares[index]);
            println!(
                "flush over 16 writes, {name:<6}: {median:>8.1} {high:>8.1}; {rate:>7.0} writes/s, \
                 {share:>4.0} for each flush"
            );
        }
        Ok(())
    }

    /// A small write and flush where the file has no allocated space yet, so that the file system must also write its
    /// journal. This is why a log is filled when it is created.
    fn flush_after_holes(&mut self, path: &str, rounds: usize) -> Result<(), Box<dyn Error>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::DIRECT;
        let mut sparse = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        let mut spans = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            rustix::fs::ftruncate(&sparse, 0)?;
            rustix::fs::ftruncate(&sparse, FILE_BYTES)?;
            rustix::fs::fsync(&sparse)?;
            for spans in &mut spans {
                for _ in 0..50 {
                    let start = Instant::now();
                    self.durable_write(Way::RingWriteRingFlush, 4096)?;
                    spans.push(micros(start));
                }
                std::mem::swap(&mut self.fd, &mut sparse);
            }
        }
        rustix::fs::unlink(path)?;
        for (name, spans) in ["written space", "a hole"].iter().zip(&mut spans) {
            let (median, high) = quantiles(spans);
            println!("4096 B write and flush into {name:<14} {median:>8.1} {high:>8.1}");
        }
        Ok(())
    }
}

/// The same through the project's driver and executor, which shows what they add.
fn through_the_executor(bench: &Bench, rounds: usize) -> Result<(), Box<dyn Error>> {
    let driver = UringDriver::new()?;
    let file = driver.handle().add_file(bench.fd.try_clone()?);
    let rt = Rt::new(Box::new(driver));
    let pool = BufPool::new(64 * MIB);
    let mut rates = Vec::new();
    let mut spans = [Vec::new(), Vec::new()];
    for round in 0..rounds as u64 {
        let start = Instant::now();
        let readers: Vec<_> = (0..32)
            .map(|reader| {
                let (rt2, pool) = (rt.clone(), pool.clone());
                rt.spawn(async move {
                    for turn in 0..250 {
                        let place = (round * 997 + reader * 8191 + turn * 100_003) % 262_144;
                        let data = Data::whole(pool.alloc(4096));
                        let io = rt2.io(request(file, Op::Read, place * 4096, data));
                        io.done().await.expect("the file is readable");
                    }
                })
            })
            .collect();
        rt.block_on(async {
            for reader in readers {
                reader.await;
            }
        });
        rates.push(8000.0 / start.elapsed().as_secs_f64());
        for turn in 0..150 {
            for (index, spans) in spans.iter_mut().enumerate() {
                let step = 2 * turn + index as u64;
                let place = (round * 997 + step * 100_003) % 262_144;
                let data = Data::whole(pool.alloc(4096));
                let began = Instant::now();
                let op = [Op::Write, Op::WriteDurable][index];
                rt.block_on(rt.io(request(file, op, place * 4096, data)))
                    .0?;
                if op == Op::Write {
                    rt.block_on(rt.io(request(file, Op::Flush, 0, Data::None)))
                        .0?;
                }
                spans.push(micros(began));
            }
        }
    }
    let (rate, _) = quantiles(&mut rates);
    println!("executor: random 4K read depth 32: {rate:>9.0}/s");
    for (name, spans) in ["write, flush", "durable write"].iter().zip(&mut spans) {
        let (median, high) = quantiles(spans);
        println!("executor: 4096 B {name:<14} {median:>8.1} {high:>8.1}");
    }
    Ok(())
}

fn request(device: DeviceId, op: Op, offset: u64, data: Data) -> Request {
    Request {
        device,
        op,
        offset,
        len: 0,
        data,
    }
}

fn micros(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / 1000.0
}

/// Median and 95th percentile.
fn quantiles(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[values.len() * 95 / 100])
}

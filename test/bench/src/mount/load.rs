//! What the workloads do with a file system.

use crate::workload::{Load, Workload};
use anyhow::Context;
use rustix::fs::{Timespec, Timestamps};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tonearm_bench::{Random, folder};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Bytes of which contents are parts.
const NOISE: u64 = 4 * MIB;
/// Files of each thread of the mail load, and what is written to one at a time.
const MAILS: u64 = 60;
const MAIL: u64 = 16 * KIB;
/// Files in a directory of small files.
const IN_DIRECTORY: u64 = 100;
/// Size of a file that is overwritten at random.
const OVERWRITTEN: u64 = 64 * MIB;

/// How much is done.
#[derive(Clone, Copy)]
pub struct Amount {
    /// How long, where the work has no end of its own.
    pub span: Duration,
    /// Small files.
    pub files: u64,
    /// Bytes of the sequential file, in MiB.
    pub sequential_mib: u64,
}

/// What was done.
pub struct Done {
    /// In the unit of the workload.
    pub operations: u64,
    /// How long it took.
    pub span: Duration,
}

/// A workload that is ready to run.
pub struct Prepared<'a> {
    workload: &'a Workload,
    amount: Amount,
    root: PathBuf,
    noise: Vec<u8>,
    seed: u64,
}

impl<'a> Prepared<'a> {
    /// Makes what the workload needs in the folder `root`, and syncs it. `below` is the same folder of the file system
    /// below, whose cache must be empty, too.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new(
        workload: &'a Workload,
        amount: Amount,
        root: &Path,
        below: Option<&Path>,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let mut random = Random(seed);
        let words = (0..NOISE / 8).flat_map(|_| random.below(u64::MAX).to_le_bytes());
        let it = Self {
            workload,
            amount,
            root: root.to_path_buf(),
            noise: words.collect(),
            seed,
        };
        fs::create_dir(root).context("making a folder")?;
        match workload.load {
            Load::Mail => {
                for thread in 0..workload.threads {
                    for number in 0..MAILS {
                        let mut file = File::create(it.mail(thread, number))?;
                        file.write_all(it.part(&mut random, MAIL))?;
                    }
                }
            }
            Load::SmallFiles => {}
            Load::SequentialWrite => {
                // A server that has just started takes its memory from the kernel, once.
                it.write_sequentially()?;
                fs::remove_file(it.large())?;
            }
            Load::SequentialRead => {
                it.write_sequentially()?;
                for below in [Some(root), below].into_iter().flatten() {
                    let path = below.join("large");
                    File::open(&path)?.sync_all()?;
                    folder::make_cold(&path)?;
                }
            }
            Load::Overwrite => {
                for thread in 0..workload.threads {
                    let mut file = File::create(it.overwritten(thread))?;
                    for _ in 0..OVERWRITTEN / MIB {
                        file.write_all(it.part(&mut random, MIB))?;
                    }
                    file.sync_all()?;
                }
            }
        }
        File::open(root)?.sync_all()?;
        Ok(it)
    }

    /// Does the work.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn run(&self) -> anyhow::Result<Done> {
        let began = Instant::now();
        let operations = match self.workload.load {
            Load::SmallFiles => self.make_small_files(),
            Load::SequentialWrite => self.write_sequentially(),
            Load::SequentialRead => self.read_sequentially(),
            Load::Mail => self.threads(|thread| self.mails(thread, began)),
            Load::Overwrite => self.threads(|thread| self.overwrite(thread, began)),
        };
        Ok(Done {
            operations: operations?,
            span: began.elapsed(),
        })
    }

    /// Removes what the workload has made.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn clean_up(self) -> anyhow::Result<()> {
        fs::remove_dir_all(&self.root).context("removing the files")
    }

    fn threads(&self, load: impl Fn(u64) -> anyhow::Result<u64> + Sync) -> anyhow::Result<u64> {
        std::thread::scope(|scope| {
            let load = &load;
            let threads: Vec<_> = (0..self.workload.threads)
                .map(|thread| scope.spawn(move || load(thread)))
                .collect();
            let ends = threads.into_iter();
            ends.map(|thread| thread.join().expect("no panic")).sum()
        })
    }

    /// Random bytes, other ones each time.
    fn part(&self, random: &mut Random, length: u64) -> &[u8] {
        let at = random.below((NOISE - length) / 8) * 8;
        &self.noise[at as usize..(at + length) as usize]
    }

    fn random(&self, thread: u64) -> Random {
        Random(self.seed << 32 | (thread + 1) << 8)
    }

    fn mail(&self, thread: u64, number: u64) -> PathBuf {
        self.root.join(format!("{thread}-{number}"))
    }

    fn mails(&self, thread: u64, began: Instant) -> anyhow::Result<u64> {
        let (mut random, mut read, mut rounds) = (self.random(thread), Vec::new(), 0);
        while began.elapsed() < self.amount.span {
            let path = self.mail(thread, random.below(MAILS));
            fs::remove_file(&path)?;
            let mut file = File::create_new(&path)?;
            file.write_all(self.part(&mut random, MAIL))?;
            file.sync_all()?;
            drop(file);
            let mut file = File::options().read(true).append(true).open(&path)?;
            read.clear();
            file.read_to_end(&mut read)?;
            file.write_all(self.part(&mut random, MAIL))?;
            file.sync_all()?;
            drop(file);
            read.clear();
            File::open(&path)?.read_to_end(&mut read)?;
            rounds += 1;
        }
        Ok(rounds)
    }

    fn make_small_files(&self) -> anyhow::Result<u64> {
        let mut random = self.random(0);
        let mut folder = PathBuf::new();
        let time = Timespec {
            tv_sec: 1_000_000_000,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        for number in 0..self.amount.files {
            if number % IN_DIRECTORY == 0 {
                folder = self.root.join(format!("d{}", number / IN_DIRECTORY));
                fs::create_dir(&folder)?;
            }
            let mut file = File::create_new(folder.join(format!("f{number}")))?;
            let length = KIB + random.below(7 * KIB);
            file.write_all(self.part(&mut random, length))?;
            rustix::fs::futimens(&file, &times)?;
        }
        Ok(self.amount.files)
    }

    fn large(&self) -> PathBuf {
        self.root.join("large")
    }

    fn write_sequentially(&self) -> anyhow::Result<u64> {
        let mut random = self.random(0);
        let mut file = File::create(self.large())?;
        for _ in 0..self.amount.sequential_mib {
            file.write_all(self.part(&mut random, MIB))?;
        }
        file.sync_all()?;
        Ok(self.amount.sequential_mib)
    }

    fn read_sequentially(&self) -> anyhow::Result<u64> {
        let mut file = File::open(self.large())?;
        let mut bytes = vec![0; MIB as usize];
        for _ in 0..self.amount.sequential_mib {
            file.read_exact(&mut bytes)?;
        }
        Ok(self.amount.sequential_mib)
    }

    fn overwritten(&self, thread: u64) -> PathBuf {
        self.root.join(format!("file-{thread}"))
    }

    fn overwrite(&self, thread: u64, began: Instant) -> anyhow::Result<u64> {
        let (mut random, mut writes) = (self.random(thread), 0);
        let file = File::options().write(true).open(self.overwritten(thread))?;
        while began.elapsed() < self.amount.span {
            let at = random.below(OVERWRITTEN / (4 * KIB)) * 4 * KIB;
            file.write_all_at(self.part(&mut random, 4 * KIB), at)?;
            file.sync_all()?;
            writes += 1;
        }
        Ok(writes)
    }
}

//! One volume or file of an archive, as a plain file.

use super::{fetch, target};
use crate::cli::{History, Restore};
use anyhow::Context;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use tonearm_archive::{Bucket, Content, Extract, Plan, TABLE, find, volumes};
use tonearm_bucket::RealBucket;
use tonearm_format::{VolumeEntry, VolumeKind};
use tonearm_terminal::progress::{Progress, Unit};
use tonearm_terminal::report;
use tonearm_terminal::size;

/// Bytes of zeroes that are written at once where a file can have no holes.
const ZEROES: usize = 64 << 10;
/// What SQLite appends to the name of a database for files with a part of its content.
const COMPANIONS: [&str; 2] = ["-wal", "-journal"];

/// What is restored.
pub(super) struct Only {
    entry: VolumeEntry,
    extract: Extract,
    /// Files without which it is not whole.
    companions: Vec<String>,
}

impl Only {
    /// Finds `name` at the commit of `plan`, and leaves in the plan only the objects that it needs.
    pub(super) fn find(bucket: &RealBucket, plan: &mut Plan, name: &str) -> anyhow::Result<Self> {
        let volumes = read_table(bucket, plan)?;
        let entry = find(plan, &bucket.url(), &volumes, name)?.clone();
        let names = COMPANIONS.map(|end| format!("{name}{end}"));
        let companions = volumes.iter().filter(|other| {
            other.kind == VolumeKind::File && other.size_bytes > 0 && names.contains(&other.name)
        });
        let only = Self {
            extract: Extract::new(plan, &entry.extents),
            companions: companions.map(|other| other.name.clone()).collect(),
            entry,
        };
        only.narrow(plan);
        Ok(only)
    }

    /// Leaves in a plan for the same commit only the objects that are needed.
    pub(super) fn narrow(&self, plan: &mut Plan) {
        plan.objects = plan.objects_of(&self.entry.extents);
    }

    /// Makes the file, empty.
    pub(super) fn create(&self, partial: &Path) -> anyhow::Result<()> {
        let file = File::create_new(partial);
        file.map(|_| ())
            .with_context(|| partial.display().to_string())
    }

    /// Applies the objects of the plan behind the first `done`.
    pub(super) fn fill(
        &self,
        bucket: &RealBucket,
        plan: &Plan,
        partial: &Path,
        done: usize,
        noted: impl Fn(usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let file = OpenOptions::new().read(true).write(true).open(partial);
        let file = file.with_context(|| partial.display().to_string())?;
        file.set_len(self.extract.size_bytes())
            .with_context(|| partial.display().to_string())?;
        let url = bucket.url();
        let apply = |mut plain: Plain, name: String, payload: Vec<u8>, is_noted: bool| {
            let applied = self.extract.apply(&payload, &url, &name, &mut plain);
            applied.with_context(|| partial.display().to_string())?;
            if is_noted {
                plain.0.sync_all()?;
            }
            Ok(plain)
        };
        let plain = fetch::apply(bucket, plan, done, Plain(file), apply, noted)?;
        plain.0.set_len(self.entry.size_bytes)?;
        Ok(plain.0.sync_all()?)
    }

    /// Says what is restored.
    pub(super) fn tell(&self, arguments: &Restore, plan: &Plan, done: &str) -> anyhow::Result<()> {
        let path = report::shell_word(&arguments.path);
        if arguments.json {
            return report::json(&serde_json::json!({
                "archive": arguments.url,
                "file": arguments.path.display().to_string(),
                "name": self.entry.name,
                "restored": !arguments.dry_run,
                "lsn": plan.lsn.0,
                "size_bytes": self.entry.size_bytes,
                "objects": plan.objects.len(),
                "companions": self.companions,
            }));
        }
        report::line(format_args!(
            "{done} {} of commit {} in {}: {}, from {} objects",
            self.entry.name,
            plan.lsn,
            arguments.path.display(),
            size::text(self.entry.size_bytes),
            report::count(plan.objects.len() as u64)
        ))?;
        for companion in &self.companions {
            let end = companion.strip_prefix(&self.entry.name).unwrap_or_default();
            report::note(format_args!(
                "{companion} has a part of its content; restore it, too: tonearm restore {} {path}{end} --only {companion} \
                 --to-lsn {}",
                arguments.url, plan.lsn
            ));
        }
        Ok(())
    }
}

/// The volumes and files at the commit of `plan`.
fn read_table(bucket: &RealBucket, plan: &Plan) -> anyhow::Result<Vec<VolumeEntry>> {
    let extract = Extract::new(plan, &[TABLE]);
    let mut table = vec![0; extract.size_bytes() as usize];
    let (url, objects) = (bucket.url(), plan.objects_of(&[TABLE]));
    let mut bar = Progress::new("reading the volume table", Unit::Count);
    for (index, fetched) in fetch::fetch(bucket, &objects).enumerate() {
        let (name, payload) = fetched?;
        extract.apply(&payload, &url, &name, &mut table)?;
        bar.at(index as u64 + 1, objects.len() as u64);
    }
    Ok(volumes(plan, &url, &table)?)
}

/// Shows the volumes and files of a commit.
pub(super) fn names(arguments: &History, bucket: &RealBucket) -> anyhow::Result<ExitCode> {
    let target = target(&arguments.target)?;
    let (plan, _, volumes) = super::find(bucket, &target, |plan| read_table(bucket, plan))?;
    let kind = |entry: &VolumeEntry| match entry.kind {
        VolumeKind::File => "file",
        _ => "volume",
    };
    if arguments.json {
        let names = volumes.iter().map(|entry| {
            serde_json::json!({ "name": entry.name, "kind": kind(entry), "size_bytes": entry.size_bytes })
        });
        report::json(&serde_json::json!({
            "archive": bucket.url(), "lsn": plan.lsn.0, "names": names.collect::<Vec<_>>(),
        }))?;
    } else {
        let mut table = report::table(&["name", "kind", "size"]);
        for entry in &volumes {
            let size = size::text(entry.size_bytes);
            table.add_row([entry.name.clone(), kind(entry).to_string(), size]);
        }
        report::line(format_args!("commit {}", plan.lsn))?;
        report::line(table)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A plain file, with holes where it has zeroes.
struct Plain(File);

impl Content for Plain {
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn zero(&mut self, at: u64, count: u64) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.0, hole, at, count) {
            Err(Errno::OPNOTSUPP) => {}
            other => return Ok(other?),
        }
        let (zeroes, end) = (vec![0; ZEROES], at + count);
        let mut next = at;
        while next < end {
            let part = (end - next).min(ZEROES as u64);
            self.write(next, &zeroes[..part as usize])?;
            next += part;
        }
        Ok(())
    }
}

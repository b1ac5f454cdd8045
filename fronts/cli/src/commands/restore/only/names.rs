//! `tonearm history --names`: the volumes and files of a commit, as they are read.

use super::tree::{CommitTree, read_table, read_tree, wrong};
use crate::cli::History;
use crate::commands::restore::patient::Reader;
use crate::commands::restore::{find, target};
use serde::Serialize;
use serde::ser::{Error, SerializeSeq, Serializer};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::{BufWriter, Write, stdout};
use std::process::ExitCode;
use tonearm_archive::{Bucket, VolumeTable};
use tonearm_base::Lsn;
use tonearm_format::VolumeEntry;
use tonearm_fs::path_text;
use tonearm_terminal::size;

/// One of them.
#[derive(Serialize)]
struct Name {
    /// The name is not UTF-8, so JSON has it escaped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    escaped: bool,
    kind: &'static str,
    /// What `--only` takes.
    #[serde(serialize_with = "text")]
    name: Vec<u8>,
    size_bytes: u64,
}

fn text<S: Serializer>(name: &[u8], to: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(name) {
        Ok(text) => to.serialize_str(text),
        Err(_) => to.serialize_str(&path_text(name)),
    }
}

impl Name {
    fn new(kind: &'static str, name: Vec<u8>, size_bytes: u64) -> Self {
        Self {
            escaped: std::str::from_utf8(&name).is_err(),
            kind,
            name,
            size_bytes,
        }
    }

    fn of(entry: &VolumeEntry) -> Self {
        Self::new("volume", entry.name.clone().into_bytes(), entry.size_bytes)
    }
}

/// Where they are read.
struct Names {
    url: String,
    lsn: Lsn,
    table: VolumeTable,
    tree: Option<CommitTree>,
}

impl Names {
    /// Calls `each` for each of them, in the order of the bytes of their names.
    fn each(&mut self, mut each: impl FnMut(&Name) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let table = &self.table;
        let mut volumes = table.volumes.iter().peekable();
        if let Some(tree) = &mut self.tree {
            let written = tree.files(|path, inode| {
                while let Some(volume) = volumes.next_if(|next| next.name.as_bytes() <= path) {
                    each(&Name::of(volume))?;
                }
                each(&Name::new("file", super::name_of(table, path), inode.size))
            });
            written.map_err(|error: anyhow::Error| match error.downcast_ref() {
                Some(error) => wrong(&self.url, self.lsn, error),
                None => error,
            })?;
        }
        volumes.try_for_each(|volume| each(&Name::of(volume)))
    }
}

/// What is printed as JSON, as it is read.
#[derive(Serialize)]
struct Document {
    archive: String,
    lsn: u64,
    #[serde(serialize_with = "each")]
    names: RefCell<Names>,
}

fn each<S: Serializer>(names: &RefCell<Names>, to: S) -> Result<S::Ok, S::Error> {
    let mut list = to.serialize_seq(None)?;
    let written = names.borrow_mut().each(|name| {
        let written = list.serialize_element(name);
        written.map_err(|error| anyhow::anyhow!("{error}"))
    });
    written.map_err(|error| S::Error::custom(format!("{error:#}")))?;
    list.end()
}

/// Shows the volumes and files of a commit.
pub(in crate::commands::restore) fn names(
    arguments: &History,
    bucket: &Reader,
) -> anyhow::Result<ExitCode> {
    let target = target(&arguments.target)?;
    let (plan, mut names) = find(bucket, &target, true, &mut BTreeSet::new(), |plan| {
        let table = read_table(bucket, plan)?;
        let tree = read_tree(bucket, plan, &table, &std::env::temp_dir())?;
        let (url, lsn) = (bucket.url(), plan.lsn);
        Ok(Names {
            url,
            lsn,
            table,
            tree,
        })
    })?;
    let mut out = BufWriter::new(stdout().lock());
    if arguments.json {
        let document = Document {
            archive: bucket.url(),
            lsn: plan.lsn.0,
            names: RefCell::new(names),
        };
        serde_json::to_writer_pretty(&mut out, &document)?;
        writeln!(out)?;
    } else {
        writeln!(out, "commit {}", plan.lsn)?;
        writeln!(out, "{:<6}  {:>10}  name", "kind", "size")?;
        names.each(|name| {
            let size = size::text(name.size_bytes);
            let shown = path_text(&name.name);
            Ok(writeln!(out, "{:<6}  {size:>10}  {shown}", name.kind)?)
        })?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

//! The volume table and the tree of files, as they were at a commit of an archive.

use super::plain::Plain;
use crate::commands::restore::fetch;
use crate::commands::restore::patient::Reader;
use anyhow::{Context, anyhow};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tonearm_archive::{ArchiveError, Bucket, Content, Extract, Plan, TABLE, VolumeTable};
use tonearm_base::Lsn;
use tonearm_fs::{OfflineError, OfflineTree};
use tonearm_terminal::progress::{Progress, Unit};

/// Reads a page.
type Read = Box<dyn FnMut(u64, &mut [u8]) -> io::Result<()>>;
/// The tree of files of a commit, in a temporary file.
pub(super) type CommitTree = OfflineTree<Read>;

/// The volume table at the commit of `plan`.
pub(super) fn read_table(bucket: &Reader, plan: &Plan) -> anyhow::Result<VolumeTable> {
    let extract = Extract::new(plan, &[TABLE]);
    let mut table = vec![0; extract.size_bytes() as usize];
    let what = "reading the volume table";
    make(bucket, plan, &extract, what, &mut table)?;
    Ok(VolumeTable::decode(plan, &bucket.url(), &table)?)
}

/// The tree of files at the commit of `plan`, if there is one. Its pages may be gigabytes, so they are made in a temporary file
/// in `folder`. The file has no name, so nothing is left of it, whatever ends this process.
pub(super) fn read_tree(
    bucket: &Reader,
    plan: &Plan,
    table: &VolumeTable,
    folder: &Path,
) -> anyhow::Result<Option<CommitTree>> {
    let Some(entry) = &table.tree else {
        return Ok(None);
    };
    let extract = Extract::new(plan, &entry.extents);
    let place = || format!("a temporary file in {}", folder.display());
    let file = tempfile::tempfile_in(folder).with_context(place)?;
    file.set_len(extract.size_bytes()).with_context(place)?;
    let mut pages = Plain(file);
    let made = make(
        bucket,
        plan,
        &extract,
        "reading the tree of files",
        &mut pages,
    );
    made.map_err(|error| match error.downcast_ref() {
        Some(ArchiveError::Output(_)) => error.context(place()),
        _ => error,
    })?;
    let page_bytes = plan.shape.block_size as usize;
    let read: Read = Box::new(move |page, bytes| {
        let at = page * page_bytes as u64;
        pages.0.read_exact_at(bytes, at)
    });
    let count = entry.size_bytes / page_bytes as u64;
    let tree = OfflineTree::open(page_bytes, count, read);
    tree.map_err(|error| wrong(&bucket.url(), plan.lsn, &error))
}

/// An error of the tree of a commit.
pub(super) fn wrong(url: &str, lsn: Lsn, error: &OfflineError) -> anyhow::Error {
    let advice = match error {
        OfflineError::Damaged(_) => "; restore the whole store, and let `tonearm check` look at it",
        _ => "",
    };
    anyhow!("archive {url}: at commit {lsn} {error}{advice}")
}

/// Makes the blocks of `extract`. `what` is what the bar says.
fn make(
    bucket: &Reader,
    plan: &Plan,
    extract: &Extract,
    what: &'static str,
    content: &mut dyn Content,
) -> anyhow::Result<()> {
    let (url, objects) = (bucket.url(), plan.objects_of(extract));
    let mut bar = Progress::new(what, Unit::Count);
    for (index, fetched) in fetch::fetch(bucket, &objects).enumerate() {
        let (name, payload, _share) = fetched?;
        extract.apply(&payload, &url, &name, content)?;
        bar.at(index as u64 + 1, objects.len() as u64);
    }
    Ok(())
}

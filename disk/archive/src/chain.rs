//! Names of objects, and the end of the chain.

use crate::bucket::{Bucket, BucketError};
use crate::error::ArchiveError;
use tonearm_base::Lsn;
use tonearm_format::{ARCHIVE_HEADER_BYTES, ArchiveHeader, ArchiveKind, FormatError};

/// Folder of the chain.
pub(crate) const CHAIN: &str = "chain";
/// Folder of the objects that stand for several objects of the chain.
pub(crate) const MERGED: &str = "merged";
/// Folder of the marks.
pub(crate) const MARKS: &str = "mark";

/// Name of the object with which it is tried whether puts can be conditional.
pub(crate) const PROBE: &str = "probe";
/// So many objects at the end of the chain are never deleted. A list that lags behind by less still shows where it ends.
pub(crate) const LAST_LINKS: u64 = 4;
/// Objects that are looked for at once behind the listed ones.
const AHEAD: u64 = 8;
/// How often an archive is read anew when its objects have changed meanwhile.
pub(crate) const READS: usize = 5;
/// The number of a base's folder is the number of the opening of the archive, followed by the base's number in so many bits.
pub(crate) const FOLDER_BITS: u32 = 20;
/// Folder of the bases.
pub(crate) const BASES: &str = "base";

/// Name of object `number` of the chain.
pub(crate) fn link_name(number: u64) -> String {
    format!("{CHAIN}/{number:016x}")
}

/// Name of the object with `header`, which is one of the chain or stands for some.
pub(crate) fn object_name(header: &ArchiveHeader) -> String {
    match (header.kind, header.numbers()) {
        (ArchiveKind::Merged, (first, last)) => format!("{MERGED}/{first:016x}-{last:016x}"),
        (_, (number, _)) => link_name(number),
    }
}

/// Name of a part of a base.
pub(crate) fn part_name(folder: u64, part: u64) -> String {
    format!("{BASES}/{folder:016x}/{part:08x}")
}

/// Name of the object of a mark.
pub(crate) fn mark_name(name: &str) -> String {
    format!("{MARKS}/{name}")
}

/// The number of the folder in the name of a part of a base.
pub(crate) fn folder_of(name: &str) -> Option<u64> {
    let mut parts = name.split('/').skip(1);
    u64::from_str_radix(parts.next()?, 16).ok()
}

/// The last number in the name of an object of the chain, or of one that stands for some.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let (_, number) = name.rsplit_once(['/', '-'])?;
    u64::from_str_radix(number, 16).ok()
}

pub(crate) fn bucket_error(bucket: &dyn Bucket, error: BucketError) -> ArchiveError {
    let url = bucket.url();
    ArchiveError::Bucket { url, error }
}

pub(crate) fn object_error(bucket: &dyn Bucket, name: &str, error: FormatError) -> ArchiveError {
    ArchiveError::Object {
        url: bucket.url(),
        name: name.to_string(),
        error,
    }
}

/// Headers of the objects with these names, as far as they exist.
pub(crate) async fn heads(
    bucket: &dyn Bucket,
    names: &[String],
) -> Result<Vec<Option<ArchiveHeader>>, ArchiveError> {
    let heads = bucket.heads(names, ARCHIVE_HEADER_BYTES).await;
    let heads = heads.map_err(|error| bucket_error(bucket, error))?;
    let decoded = names.iter().zip(heads).map(|(name, head)| {
        let header = head.map(|head| ArchiveHeader::decode(&head)).transpose();
        header.map_err(|error| object_error(bucket, name, error))
    });
    decoded.collect()
}

/// The names in `folder`.
pub(crate) async fn names(bucket: &dyn Bucket, folder: &str) -> Result<Vec<String>, ArchiveError> {
    let names = bucket.list(folder).await;
    names.map_err(|error| bucket_error(bucket, error))
}

/// Numbers of the objects of the chain, ascending, and the header of the last one. The list may lag, so objects behind its
/// end are looked for. Objects in the chain are deleted only when what stands for them is listed, and the last ones never: so
/// behind all that is listed no number is missing.
pub(crate) async fn links(
    bucket: &dyn Bucket,
) -> Result<(Vec<u64>, Option<ArchiveHeader>), ArchiveError> {
    let mut start = 0;
    for _ in 0..READS {
        let listed = names(bucket, CHAIN).await?;
        let mut numbers: Vec<u64> = listed.iter().filter_map(|name| number_of(name)).collect();
        numbers.sort_unstable();
        let merged = names(bucket, MERGED).await?;
        let merged = merged.iter().filter_map(|name| number_of(name)).max();
        let listed = numbers.last().copied();
        start = listed.max(merged.map(|last| last + 1)).unwrap_or(1);
        let (mut last, mut end) = (None, start);
        for from in (start..).step_by(AHEAD as usize) {
            let names: Vec<String> = (from..from + AHEAD).map(link_name).collect();
            let found = heads(bucket, &names).await?;
            let is_end = found.contains(&None);
            for header in found.into_iter().map_while(|head| head) {
                (last, end) = (Some(header), end + 1);
            }
            if is_end {
                break;
            }
        }
        numbers.extend(listed.map_or(1, |number| number + 1)..end);
        if last.is_some() || start == 1 {
            return Ok((numbers, last));
        }
        // The object may have been merged since the list was read.
    }
    Err(ArchiveError::Missing {
        url: bucket.url(),
        name: link_name(start),
        first: Lsn(1),
        last: Lsn(1),
    })
}

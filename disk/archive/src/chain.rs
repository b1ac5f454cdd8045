//! Names of objects, and the end of the chain.

use crate::bucket::{Bucket, BucketError};
use crate::error::ArchiveError;
use tonearm_format::{ARCHIVE_HEADER_BYTES, ArchiveHeader, ArchiveKind, COUNTER_MAX, FormatError};

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
/// Objects that are looked for at once after the listed ones.
pub(crate) const AHEAD: u64 = 8;
/// Most objects by which a list may lag.
const LAG: u64 = 64;
/// Headers that are read at once.
pub(crate) const HEADS: usize = 256;
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
        (ArchiveKind::Merged, (first, last)) => merged_name(first, last),
        (_, (number, _)) => link_name(number),
    }
}

fn merged_name(first: u64, last: u64) -> String {
    format!("{MERGED}/{first:016x}-{last:016x}")
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

/// The number in the name of an object of the chain. `None` for any other name: people and programs put files of their own
/// into folders, and whoever can write to a bucket can choose names.
pub(crate) fn link_number(name: &str) -> Option<u64> {
    let number = number_in(name.strip_prefix(CHAIN)?.strip_prefix('/')?)?;
    (link_name(number) == name).then_some(number)
}

/// The first and the last number in the name of an object that stands for several. `None` for any other name.
pub(crate) fn merged_numbers(name: &str) -> Option<(u64, u64)> {
    let numbers = name.strip_prefix(MERGED)?.strip_prefix('/')?;
    let (first, last) = numbers.split_once('-')?;
    let (first, last) = (number_in(first)?, number_in(last)?);
    (merged_name(first, last) == name && first <= last).then_some((first, last))
}

/// True when a mark can have this name.
pub(crate) fn is_mark(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 100 && name.chars().all(fits) && !name.starts_with('.')
}

/// A number that an object of the chain can have.
fn number_in(digits: &str) -> Option<u64> {
    let number = u64::from_str_radix(digits, 16).ok()?;
    (1..=COUNTER_MAX).contains(&number).then_some(number)
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

/// The header of an object, if there is the object, or what is wrong with it.
pub(crate) type Head = Option<Result<ArchiveHeader, FormatError>>;

/// Headers of the objects with these names, as far as they exist. A damaged one is no error.
pub(crate) async fn any_heads(
    bucket: &dyn Bucket,
    names: &[String],
) -> Result<Vec<Head>, ArchiveError> {
    let heads = bucket.heads(names, ARCHIVE_HEADER_BYTES).await;
    let heads = heads.map_err(|error| bucket_error(bucket, error))?;
    let heads = heads.into_iter();
    Ok(heads
        .map(|head| head.map(|head| ArchiveHeader::decode(&head)))
        .collect())
}

/// The names in `folder`.
pub(crate) async fn names(bucket: &dyn Bucket, folder: &str) -> Result<Vec<String>, ArchiveError> {
    let names = bucket.list(folder).await;
    names.map_err(|error| bucket_error(bucket, error))
}

/// The numbers of a chain.
pub(crate) struct Numbers {
    /// Numbers of its objects, ascending.
    pub(crate) numbers: Vec<u64>,
    /// Names in the folder that are none of an object.
    pub(crate) strays: Vec<String>,
}

/// The numbers of the chain. The list may lag, so objects after its end are looked for. Objects in the chain are deleted only
/// when what stands for them is listed, and the last ones never: so after all that is listed no number is missing.
pub(crate) async fn numbers(bucket: &dyn Bucket) -> Result<Numbers, ArchiveError> {
    let mut reads = 0;
    loop {
        reads += 1;
        let (mut numbers, mut strays) = (Vec::new(), Vec::new());
        for name in names(bucket, CHAIN).await? {
            match link_number(&name) {
                Some(number) => numbers.push(number),
                None => strays.push(name),
            }
        }
        numbers.sort_unstable();
        let listed = numbers.last().copied();
        let merged = merged_from(bucket, listed.unwrap_or(0)).await?;
        let expected = listed.max(merged.iter().map(|header| header.number + 1).max());
        let start = expected.unwrap_or(1);
        let (mut is_found, mut end) = (false, start);
        for from in (start..=COUNTER_MAX).step_by(AHEAD as usize) {
            let names: Vec<String> = (from..from + AHEAD).map(link_name).collect();
            let found = any_heads(bucket, &names).await?;
            let is_end = found.iter().any(Option::is_none);
            for _ in found.into_iter().map_while(|head| head) {
                (is_found, end) = (true, end + 1);
            }
            if is_end {
                break;
            }
        }
        // A list does not lag by more. What a merged object says may be anything.
        let next = listed.map_or(1, |number| number + 1);
        numbers.extend(next.max(start.saturating_sub(LAG))..end);
        // Else the last object may have been merged since the list was read, or the answer was wrong: it is asked for again.
        if is_found || expected.is_none() || reads == READS {
            return Ok(Numbers { numbers, strays });
        }
    }
}

/// The headers of the merged objects that stand for number `from` or a later one. A name alone does not count: anybody can choose
/// one.
pub(crate) async fn merged_from(
    bucket: &dyn Bucket,
    from: u64,
) -> Result<Vec<ArchiveHeader>, ArchiveError> {
    let mut names = names(bucket, MERGED).await?;
    names.retain(|name| merged_numbers(name).is_some_and(|(_, last)| last >= from));
    let mut headers = Vec::new();
    for names in names.chunks(HEADS) {
        let heads = names.iter().zip(any_heads(bucket, names).await?);
        headers.extend(heads.filter_map(|(name, head)| {
            let header = head?.ok()?;
            (object_name(&header) == *name).then_some(header)
        }));
    }
    Ok(headers)
}

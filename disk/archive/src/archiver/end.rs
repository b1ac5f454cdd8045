//! Where the chain of a store ends, and whether its end can be restored. Anybody who can write to the place chooses names and
//! content. So the end is the last object that has the number of its name and is of this store; what has another number of the
//! chain and is neither is odd: no writer believes it, and none deletes it.

use super::Archiver;
use crate::bucket::Bucket;
use crate::catalog::Catalog;
use crate::chain::{
    self, AHEAD, CHAIN, HEADS, Head, LAST_LINKS, READS, bucket_error, link_name, link_number,
    object_error, part_name,
};
use crate::error::ArchiveError;
use tonearm_base::Lsn;
use tonearm_format::{ArchiveHeader, ArchiveKind, FormatError, Uuid};

/// So many numbers in a row may have odd objects. A writer puts its next object after them.
pub(super) const ODD_MAX: u64 = 16;

/// The end of a chain.
#[derive(Default)]
pub(super) struct End {
    /// Numbers that have an object up to the end, ascending; some of them may be odd.
    pub(super) numbers: Vec<u64>,
    /// The header of the last object.
    pub(super) last: Option<ArchiveHeader>,
    /// The header of an object of another store after it.
    pub(super) foreign: Option<ArchiveHeader>,
    /// Numbers after the end whose objects are odd, and what is wrong with their headers.
    pub(super) odd: Vec<(u64, Option<FormatError>)>,
}

/// True when an object of this name is one of the chain of `store`.
pub(super) fn is_link(header: &ArchiveHeader, number: u64, store: &Uuid) -> bool {
    let is_of_chain = !matches!(header.kind, ArchiveKind::Merged | ArchiveKind::BasePart);
    is_of_chain && header.number == number && header.store == *store
}

/// The header, if it is one of the chain.
pub(super) fn link(head: Head, number: u64, store: &Uuid) -> Option<ArchiveHeader> {
    let header = head?.ok()?;
    is_link(&header, number, store).then_some(header)
}

/// Finds the end. A list may lag, so objects after its end are looked for.
///
/// # Errors
/// When an object is not there although lists show it, or a merged object says that it must be; when one at the end has a later
/// version.
pub(super) async fn find(bucket: &dyn Bucket, store: &Uuid) -> Result<End, ArchiveError> {
    let mut reads = 0;
    loop {
        reads += 1;
        let names = chain::names(bucket, CHAIN).await?;
        let mut numbers: Vec<u64> = names.iter().filter_map(|name| link_number(name)).collect();
        numbers.sort_unstable();
        let mut end = End::default();
        let mut absent = look_back(bucket, store, &numbers, &mut end).await?;
        let listed = end.last.map_or(0, |last| last.number);
        // What a merged object stands for has been listed before.
        let merged = merged_from(bucket, store, listed).await?;
        let merged = merged.iter().map(|header| header.number + 1).max();
        let merged = merged.unwrap_or(0);
        look_ahead(bucket, store, merged.max(listed + 1), &mut end).await?;
        let last = end.last.map_or(0, |last| last.number);
        absent.retain(|number| *number > last);
        if merged > last {
            absent.push(merged);
        }
        match absent.first() {
            // Else it may have been merged or deleted since the list was read, or an answer was wrong.
            Some(number) if reads == READS => {
                return Err(ArchiveError::Missing {
                    url: bucket.url(),
                    name: link_name(*number),
                    first: Lsn(1),
                    last: Lsn(1),
                });
            }
            Some(_) => continue,
            None => {}
        }
        end.odd.retain(|(number, _)| *number > last);
        for (number, error) in &end.odd {
            if let Some(error @ FormatError::Version { .. }) = error
                && *number <= last + LAST_LINKS
            {
                return Err(object_error(bucket, &link_name(*number), *error));
            }
        }
        numbers.retain(|number| *number <= listed);
        numbers.extend(listed + 1..=last);
        end.numbers = numbers;
        return Ok(end);
    }
}

/// Looks for the last one of the listed objects. Returns the numbers of those that are not there.
async fn look_back(
    bucket: &dyn Bucket,
    store: &Uuid,
    numbers: &[u64],
    end: &mut End,
) -> Result<Vec<u64>, ArchiveError> {
    let mut absent = Vec::new();
    for numbers in numbers.rchunks(AHEAD as usize) {
        let names: Vec<String> = numbers.iter().map(|number| link_name(*number)).collect();
        let heads = chain::any_heads(bucket, &names).await?;
        for (number, head) in numbers.iter().zip(heads).rev() {
            match head {
                Some(Ok(header)) if is_link(&header, *number, store) => {
                    end.last = Some(header);
                    return Ok(absent);
                }
                Some(Ok(header)) if header.number == *number && header.store != *store => {
                    end.foreign.get_or_insert(header);
                    end.odd.push((*number, None));
                }
                Some(Ok(_)) => end.odd.push((*number, None)),
                Some(Err(error)) => end.odd.push((*number, Some(error))),
                None => {
                    // One that is shorter than a header has none.
                    let name = link_name(*number);
                    let whole = bucket.get(&name, 0).await;
                    let whole = whole.map_err(|error| bucket_error(bucket, error))?;
                    match whole {
                        Some(_) => end.odd.push((*number, None)),
                        None => absent.push(*number),
                    }
                }
            }
        }
    }
    Ok(absent)
}

/// Looks for objects after the listed ones, from `number` on.
async fn look_ahead(
    bucket: &dyn Bucket,
    store: &Uuid,
    mut number: u64,
    end: &mut End,
) -> Result<(), ArchiveError> {
    loop {
        let next = next_links(bucket, store, number, AHEAD).await?;
        let Some(last) = next.last() else {
            return Ok(());
        };
        (end.last, number) = (Some(*last), last.number + 1);
    }
}

/// The objects of the chain with `count` numbers from `number` on, as far as there are some.
async fn next_links(
    bucket: &dyn Bucket,
    store: &Uuid,
    number: u64,
    count: u64,
) -> Result<Vec<ArchiveHeader>, ArchiveError> {
    let names: Vec<String> = (number..number + count).map(link_name).collect();
    let heads = chain::any_heads(bucket, &names).await?;
    let heads = (number..).zip(heads);
    Ok(heads
        .filter_map(|(number, head)| link(head, number, store))
        .collect())
}

/// The merged objects of `store` that stand for number `from` or a later one.
async fn merged_from(
    bucket: &dyn Bucket,
    store: &Uuid,
    from: u64,
) -> Result<Vec<ArchiveHeader>, ArchiveError> {
    let mut merged = chain::merged_from(bucket, from).await?;
    merged.retain(|header| header.store == *store);
    Ok(merged)
}

/// True when the state at the end can be restored from the base that its last object names: all objects from what the base needs to
/// the end are there, each follows the one before it, and so are the parts of the base.
pub(super) async fn is_restorable(bucket: &dyn Bucket, end: &End) -> Result<bool, ArchiveError> {
    let Some(last) = &end.last else {
        return Ok(false);
    };
    let (mut objects, mut lowest, mut base) = (Vec::new(), last.number, None);
    for numbers in end.numbers.rchunks(HEADS) {
        let names: Vec<String> = numbers.iter().map(|number| link_name(*number)).collect();
        let heads = numbers.iter().zip(chain::any_heads(bucket, &names).await?);
        let links: Vec<ArchiveHeader> = heads
            .filter_map(|(number, head)| link(head, *number, &last.store))
            .collect();
        let is_base =
            |link: &&ArchiveHeader| link.number == last.base && link.kind == ArchiveKind::Base;
        base = base.or(links.iter().find(is_base).copied());
        lowest = numbers.first().copied().unwrap_or(lowest);
        objects.extend(links);
        // The ranges of the base begin after this commit. Nothing before it is needed.
        let is_before = |base: ArchiveHeader| {
            let mut links = objects.iter().filter(|link| link.number < base.number);
            links.any(|link| link.archived().0 <= base.first)
        };
        if lowest <= last.base && base.is_none_or(is_before) {
            break;
        }
    }
    let Some(base) = base else {
        return Ok(false);
    };
    objects.extend(merged_from(bucket, &last.store, lowest).await?);
    let catalog = Catalog::of(bucket.url(), objects, Vec::new());
    let Some(ranges) = catalog.ranges_of(&base) else {
        return Ok(false);
    };
    let reached = ranges.last().map_or(0, |range| range.last);
    if reached.max(base.exact_from).max(base.last) < last.archived().0 {
        return Ok(false);
    }
    let parts = match catalog.base(bucket, base.number).await {
        Ok(parts) => parts,
        Err(error @ ArchiveError::Bucket { .. }) => return Err(error),
        Err(_) => return Ok(false),
    };
    let names: Vec<String> = (0..parts.parts.len() as u64)
        .map(|part| part_name(parts.folder, part))
        .collect();
    for (names, parts) in names.chunks(HEADS).zip(parts.parts.chunks(HEADS)) {
        let heads = chain::any_heads(bucket, names).await?;
        let is_there = heads.iter().zip(parts).all(|(head, part)| {
            let header = head.as_ref().and_then(|head| head.as_ref().ok());
            header.is_some_and(|header| header.crc() == part.crc && header.store == last.store)
        });
        if !is_there {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Archiver<'_> {
    /// The header of the object of the chain that follows the own last one, if there is one.
    pub(super) async fn follower(&mut self) -> Result<Option<ArchiveHeader>, ArchiveError> {
        let (store, number) = (self.shape.store, self.number + 1);
        let found = self.retry(async |bucket| next_links(bucket, &store, number, ODD_MAX).await);
        Ok(found.await?.first().copied())
    }

    /// Notes objects after the end that are odd.
    pub(super) fn note_odd(&mut self, numbers: impl Iterator<Item = u64>) {
        let names: Vec<String> = numbers.take(3).map(link_name).collect();
        if !names.is_empty() {
            self.info.notes.odd = Some(format!(
                "{}: not an object of this archive; it is left out, and may be removed",
                names.join(", ")
            ));
        }
    }
}

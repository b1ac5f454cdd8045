//! Reads what an archive has: the headers of its objects.
//!
//! Whoever can write to the bucket, and each program that puts files into a folder, chooses what is read here. So nothing of it
//! ends the reading: an object that cannot be used, and a name that is none of an object, is noted in the catalog, and the
//! states that do not need it can be restored. Memory is in proportion to the objects that are there, whatever numbers they
//! have.

use crate::bucket::Bucket;
use crate::catalog::{Catalog, Unread};
use crate::chain::{
    self, CHAIN, HEADS, Head, MARKS, MERGED, READS, is_mark, link_name, merged_numbers, object_name,
};
use crate::error::ArchiveError;
use async_recursion::async_recursion as boxed;
use std::collections::BTreeSet;
use tonearm_format::{ArchiveHeader, ArchiveKind, FormatError};

/// What was read of the objects.
#[derive(Default)]
struct Objects {
    /// Headers of those that can be used.
    headers: Vec<ArchiveHeader>,
    /// Numbers of the chain at which there is an object of another place.
    misplaced: Vec<u64>,
    unread: Vec<Unread>,
    strays: Vec<String>,
}

impl Catalog {
    /// Reads what `bucket` has.
    ///
    /// # Errors
    /// When the bucket fails, or there is no archive.
    #[boxed(?Send)]
    pub async fn load(bucket: &dyn Bucket) -> Result<Self, ArchiveError> {
        let url = bucket.url();
        for _ in 0..READS {
            let Some(mut objects) = load_objects(bucket).await? else {
                continue;
            };
            let is_empty = objects.headers.is_empty() && objects.misplaced.is_empty();
            if is_empty && objects.unread.is_empty() {
                return Err(ArchiveError::Empty { url });
            }
            let marks = load_marks(bucket, &mut objects).await?;
            let mut catalog = Self::of(url, objects.headers, marks);
            catalog.note_unusable(objects.misplaced, objects.unread, objects.strays);
            return Ok(catalog);
        }
        Err(ArchiveError::Changing { url })
    }
}

/// The headers of all objects of the chain and all merged ones. `None` when a merged one has been merged again meanwhile.
async fn load_objects(bucket: &dyn Bucket) -> Result<Option<Objects>, ArchiveError> {
    let chain = chain::numbers(bucket).await?;
    let mut objects = Objects {
        strays: chain.strays,
        ..Objects::default()
    };
    let names = chain.numbers.iter().map(|number| link_name(*number));
    // One that is not listed any more has been merged or deleted.
    let (heads, _) = heads_of(bucket, CHAIN, names.collect()).await?;
    heads
        .into_iter()
        .for_each(|(name, head)| objects.take(name, head));
    // Only now: what stands for an object that was not there any more had been put before, and is in this list.
    let is_own = |name: &str| merged_numbers(name).is_some();
    let names = objects.names(bucket, MERGED, is_own).await?;
    let (heads, was_deleted) = heads_of(bucket, MERGED, names).await?;
    heads
        .into_iter()
        .for_each(|(name, head)| objects.take(name, head));
    Ok((!was_deleted).then_some(objects))
}

/// The marks, by their commits.
async fn load_marks(
    bucket: &dyn Bucket,
    objects: &mut Objects,
) -> Result<Vec<(String, ArchiveHeader)>, ArchiveError> {
    let short = |name: &str| {
        let short = name.strip_prefix(MARKS)?.strip_prefix('/')?;
        is_mark(short).then(|| short.to_string())
    };
    let names = objects
        .names(bucket, MARKS, |name| short(name).is_some())
        .await?;
    let mut marks = Vec::new();
    for (name, head) in heads_of(bucket, MARKS, names).await?.0 {
        match (head, short(&name)) {
            (Some(Ok(header)), Some(short)) if header.kind == ArchiveKind::Mark => {
                marks.push((short, header));
            }
            (Some(Ok(_)), _) => objects.strays.push(name),
            (head, _) => objects.take(name, head),
        }
    }
    marks.sort_by_key(|(_, header)| header.last);
    Ok(marks)
}

/// The headers of the objects `names` of `folder`. An object that is not there is asked for again while the list shows it: an
/// answer may be wrong once. Also, whether one is not listed any more; that one is left out.
async fn heads_of(
    bucket: &dyn Bucket,
    folder: &str,
    names: Vec<String>,
) -> Result<(Vec<(String, Head)>, bool), ArchiveError> {
    let (mut found, mut absent, mut was_deleted) = (Vec::new(), names, false);
    for _ in 0..READS {
        let asked = std::mem::take(&mut absent);
        for names in asked.chunks(HEADS) {
            for (name, head) in names.iter().zip(chain::any_heads(bucket, names).await?) {
                match head {
                    None => absent.push(name.clone()),
                    head => found.push((name.clone(), head)),
                }
            }
        }
        if absent.is_empty() {
            return Ok((found, was_deleted));
        }
        let listed: BTreeSet<String> = chain::names(bucket, folder).await?.into_iter().collect();
        let before = absent.len();
        absent.retain(|name| listed.contains(name));
        was_deleted |= absent.len() < before;
    }
    found.extend(absent.into_iter().map(|name| (name, None)));
    Ok((found, was_deleted))
}

impl Objects {
    /// The names in `folder` of which `is_own` says that they are those of objects.
    async fn names(
        &mut self,
        bucket: &dyn Bucket,
        folder: &str,
        is_own: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, ArchiveError> {
        let names = chain::names(bucket, folder).await?.into_iter();
        let (names, strays): (Vec<String>, Vec<String>) = names.partition(|name| is_own(name));
        self.strays.extend(strays);
        Ok(names)
    }

    /// Takes the header of an object.
    fn take(&mut self, name: String, head: Head) {
        let error = match head {
            Some(Ok(header)) if object_name(&header) == name => return self.headers.push(header),
            Some(Ok(_)) => match chain::link_number(&name) {
                Some(number) => return self.misplaced.push(number),
                None => Some(FormatError::Inconsistent {
                    what: "archive object",
                    why: "it stands for other objects than its name says",
                }),
            },
            Some(Err(error)) => Some(error),
            None => None,
        };
        self.unread.push(Unread { name, error });
    }
}

#[cfg(test)]
#[path = "load_test.rs"]
mod load_test;

//! Which objects restore a state.

use crate::bucket::Bucket;
use crate::catalog::{Catalog, Restorable, exact_after, exact_before, inexact_at};
use crate::chain::{bucket_error, object_error, object_name, part_name};
use crate::error::ArchiveError;
use crate::extract::Extract;
use crate::object;
use crate::source::StoreShape;
use std::ops::Range;
use tonearm_base::Lsn;
use tonearm_format::{
    ArchiveBase, ArchiveEntry, ArchiveHeader, ArchiveKind, ArchivePart, ArchiveReader,
    SYSTEM_BLOCKS, Uuid,
};

/// The state that is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// That of the last commit that can be restored.
    Latest,
    /// That of a commit.
    Lsn(Lsn),
    /// The last that was durable by then and can be restored, in milliseconds since 1970.
    Time(u64),
    /// That of the commit with this mark.
    Mark(String),
}

/// What a restore does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The commit whose state it makes.
    pub lsn: Lsn,
    /// The store's shape.
    pub shape: StoreShape,
    /// The objects in the order in which they are applied.
    pub objects: Vec<PlannedObject>,
}

/// One object that is to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedObject {
    /// Its name.
    pub name: String,
    /// Its payload has entries: commits, or blocks of a base.
    pub has_entries: bool,
    /// The blocks that it may change.
    blocks: Range<u64>,
    /// CRC-32C in its header.
    crc: u32,
    /// Its store.
    store: Uuid,
    /// The commits that cannot be restored without it.
    commits: (Lsn, Lsn),
}

impl Plan {
    /// Plans to restore `target`.
    ///
    /// # Errors
    /// When there is no way to that state, with the states to which there is one.
    pub async fn make(
        bucket: &dyn Bucket,
        catalog: &Catalog,
        target: &Target,
    ) -> Result<Self, ArchiveError> {
        let restorable = catalog.restorable();
        let refuse = |what: String| ArchiveError::NotRestorable {
            url: catalog.url.clone(),
            what,
            ranges: describe(&restorable),
        };
        let lsn = match target {
            Target::Latest => restorable.iter().map(|part| part.last).max(),
            Target::Lsn(lsn) => Some(*lsn),
            Target::Mark(name) => {
                let mut marks = catalog.marks.iter();
                let Some((_, mark)) = marks.find(|(known, _)| known == name) else {
                    return Err(ArchiveError::NoMark {
                        url: catalog.url.clone(),
                        name: name.clone(),
                    });
                };
                Some(Lsn(mark.last))
            }
            Target::Time(unix_ms) => {
                let last = last_at(bucket, catalog, *unix_ms).await?;
                last.and_then(|last| catalog.restorable_before(last))
            }
        };
        let Some(lsn) = lsn else {
            return Err(refuse(match target {
                Target::Time(_) => "of that time, nothing that was durable is kept".into(),
                _ => "no base is complete".into(),
            }));
        };
        let within = |part: &&Restorable| part.first <= lsn && lsn <= part.last;
        let Some(part) = restorable.iter().rev().find(within) else {
            return Err(refuse(format!("commit {lsn} cannot be restored")));
        };
        let base = catalog.links[&part.base];
        let ranges = catalog.ranges_behind(Lsn(base.first));
        if let Some(range) = inexact_at(&ranges, lsn) {
            let why = match range.kind {
                ArchiveKind::Merged => format!(
                    "of commits {} to {} only the last state is kept",
                    range.first, range.last
                ),
                _ => format!(
                    "when commit {} was archived, later ones had changed its blocks",
                    range.inexact_from
                ),
            };
            return Err(refuse(format!(
                "commit {lsn} cannot be restored: {why}; restore commit {} or {}",
                exact_before(&ranges, lsn),
                exact_after(&ranges, lsn)
            )));
        }
        let used: Vec<_> = ranges
            .into_iter()
            .filter(|range| range.first <= lsn.0)
            .collect();
        let parts = catalog.base(bucket, base.number).await?;
        let mut objects: Vec<PlannedObject> =
            PlannedObject::parts(&base, &parts, (part.first, part.last)).collect();
        let ranges = used.iter();
        objects.extend(ranges.map(|range| PlannedObject::of_chain(range, part.last)));
        let number = used.last().map_or(base.number, |range| range.number);
        Ok(Self {
            lsn,
            shape: catalog.shape(bucket, number).await?,
            objects,
        })
    }

    /// The objects that may change one of the blocks that `extract` makes, in the order in which they are applied.
    pub fn objects_of(&self, extract: &Extract) -> Vec<PlannedObject> {
        let objects = self.objects.iter();
        let needed = objects.filter(|object| extract.touches(&object.blocks));
        needed.cloned().collect()
    }

    /// How many of the first objects need not be applied when the first `done` objects of `before` were. `before` was a plan
    /// for the same commit, of which objects have been merged or deleted since. If it is none, the store is to be made anew: a
    /// base has only blocks with content, so it does not undo what another base and the ranges behind that have written.
    pub fn done_after(&self, before: &Plan, done: usize) -> usize {
        let both = self.objects.iter().zip(&before.objects[..done]);
        both.take_while(|(own, other)| own.is(other)).count()
    }
}

impl PlannedObject {
    /// True when `other` is the same object. Which commits it is needed for changes while the archive grows.
    fn is(&self, other: &Self) -> bool {
        (&self.name, self.crc, self.store) == (&other.name, other.crc, other.store)
    }

    /// An object of the chain, without which commits up to `until` cannot be restored.
    pub(crate) fn of_chain(header: &ArchiveHeader, until: Lsn) -> Self {
        Self {
            name: object_name(header),
            has_entries: header.has_commits(),
            blocks: if header.spares_table {
                SYSTEM_BLOCKS
            } else {
                0
            }..u64::MAX,
            crc: header.crc(),
            store: header.store,
            commits: (Lsn(header.first), until),
        }
    }

    /// The parts of base `header`, without which `commits` cannot be restored.
    pub(crate) fn parts(
        header: &ArchiveHeader,
        base: &ArchiveBase,
        commits: (Lsn, Lsn),
    ) -> impl Iterator<Item = Self> {
        let part = move |(index, part): (usize, &ArchivePart)| {
            let before = index.checked_sub(1).map(|before| &base.parts[before]);
            Self {
                name: part_name(base.folder, index as u64),
                has_entries: true,
                blocks: before.map_or(0, |before| before.end_block)..part.end_block,
                crc: part.crc,
                store: header.store,
                commits,
            }
        };
        base.parts.iter().enumerate().map(part)
    }

    /// Its payload.
    ///
    /// # Errors
    /// When it is not there, damaged, or another one; and when it is encrypted, and there is no key. In that case all else is
    /// right.
    pub async fn fetch(&self, bucket: &dyn Bucket) -> Result<Vec<u8>, ArchiveError> {
        let name = &self.name;
        let object = bucket.get(name).await;
        let object = object.map_err(|error| bucket_error(bucket, error))?;
        let Some(object) = object else {
            return Err(ArchiveError::Missing {
                url: bucket.url(),
                name: name.clone(),
                first: self.commits.0,
                last: self.commits.1,
            });
        };
        let wrong = |error| object_error(bucket, name, error);
        let (header, stored) = object::check(&object).map_err(wrong)?;
        if header.crc() != self.crc || header.store != self.store {
            return Err(ArchiveError::Unlinked {
                url: bucket.url(),
                name: name.clone(),
            });
        }
        if !header.encrypted {
            return object::unpack(&header, stored).map_err(wrong);
        }
        let decrypted = bucket.keys().decrypt(stored);
        let decrypted = decrypted.map_err(|error| ArchiveError::Key {
            url: bucket.url(),
            name: name.clone(),
            error,
        })?;
        object::unpack(&header, &decrypted).map_err(wrong)
    }
}

/// The last commit that was durable at `unix_ms`. An opening and a base tell of a commit, too, which may be in no range: the
/// first base may hold all commits before the archive.
async fn last_at(
    bucket: &dyn Bucket,
    catalog: &Catalog,
    unix_ms: u64,
) -> Result<Option<Lsn>, ArchiveError> {
    let links = catalog.links.values();
    let before = links.filter(|link| link.unix_ms <= unix_ms);
    let mut last = before.map(|link| Lsn(link.last)).max();
    let next = catalog
        .ranges()
        .find(|range| last.is_none_or(|last| last.0 < range.last));
    // Of a merged one only the last commit is left, and that is later.
    let Some(next) = next.filter(|next| next.kind == ArchiveKind::Range) else {
        return Ok(last);
    };
    let object = PlannedObject::of_chain(next, Lsn(next.last));
    let payload = object.fetch(bucket).await?;
    // Blocks are skipped, so their size must be known.
    let shape = catalog.shape(bucket, next.number).await?;
    let mut reader = ArchiveReader::new(&payload, shape.block_size as usize);
    let mut commit = None;
    while let Some(entry) = reader.next() {
        let entry = entry.map_err(|error| object_error(bucket, &object.name, error))?;
        match entry {
            ArchiveEntry::Commit(lsn) => commit = Some(lsn),
            ArchiveEntry::Time { unix_ms: at } if at <= unix_ms => last = commit.or(last),
            _ => {}
        }
    }
    Ok(last)
}

/// What can be restored, for people.
fn describe(restorable: &[Restorable]) -> String {
    if restorable.is_empty() {
        return "nothing can be restored before the first base is complete".into();
    }
    let mut parts: Vec<(Lsn, Lsn)> = Vec::new();
    for part in restorable {
        match parts.last_mut() {
            Some((_, last)) if part.first <= *last => *last = part.last.max(*last),
            _ => parts.push((part.first, part.last)),
        }
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(first, last)| format!("{first} to {last}"))
        .collect();
    format!("commits that can be restored: {}", parts.join(", "))
}

//! What an archive has.

use crate::bucket::Bucket;
use crate::chain::{
    self, MARKS, MERGED, READS, bucket_error, link_name, object_error, object_name,
};
use crate::error::ArchiveError;
use crate::plan::PlannedObject;
use crate::source::StoreShape;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use tonearm_base::Lsn;
use tonearm_format::{
    ARCHIVE_HEADER_BYTES, ArchiveBase, ArchiveHeader, ArchiveKind, ArchiveOpening,
};

/// Headers that are read at once.
const HEADS: usize = 256;

/// The objects of an archive, as far as their headers tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Catalog {
    /// What people call the place.
    pub url: String,
    /// Headers of the chain's objects by number, each number once: where objects are deleted because a merged one stands for
    /// them, its header is at the first of their numbers.
    pub links: BTreeMap<u64, ArchiveHeader>,
    /// Numbers between the first and the last object at which there is none, and for which no other one stands.
    pub missing: Vec<u64>,
    /// Numbers of objects that do not name the one before them, or have another number in their header.
    pub unlinked: Vec<u64>,
    /// Marks: name and header.
    pub marks: Vec<(String, ArchiveHeader)>,
    /// Headers of all objects of the chain, and of all merged ones.
    pub(crate) objects: Vec<ArchiveHeader>,
}

/// Commits to which a store can be restored: from the first to the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restorable {
    /// First commit.
    pub first: Lsn,
    /// Last commit.
    pub last: Lsn,
    /// Milliseconds since 1970 at which the last one was durable.
    pub unix_ms: u64,
    /// Number of the base.
    pub base: u64,
}

impl Catalog {
    /// Reads what `bucket` has.
    ///
    /// # Errors
    /// When the bucket fails, there is no archive, or a header is damaged.
    pub async fn load(bucket: &dyn Bucket) -> Result<Self, ArchiveError> {
        let url = bucket.url();
        for _ in 0..READS {
            let Some((objects, misplaced)) = Self::load_objects(bucket).await? else {
                continue;
            };
            if objects.is_empty() && misplaced.is_empty() {
                return Err(ArchiveError::Empty { url });
            }
            let marks = Self::load_marks(bucket).await?;
            let mut catalog = Self::of(url, objects, marks);
            // Those at the end of the chain leave no hole.
            catalog.unlinked.extend(misplaced);
            catalog.unlinked.sort_unstable();
            return Ok(catalog);
        }
        Err(ArchiveError::Changing { url })
    }

    /// The headers of all objects of the chain and all merged ones, and the numbers at which there is an object of another
    /// number. `None` when a merged one has been merged again meanwhile.
    async fn load_objects(
        bucket: &dyn Bucket,
    ) -> Result<Option<(Vec<ArchiveHeader>, Vec<u64>)>, ArchiveError> {
        let (numbers, _) = chain::links(bucket).await?;
        let (mut objects, mut misplaced) = (Vec::new(), Vec::new());
        for numbers in numbers.chunks(HEADS) {
            let names: Vec<String> = numbers.iter().map(|number| link_name(*number)).collect();
            let headers = chain::heads(bucket, &names).await?;
            for (number, header) in numbers.iter().zip(headers) {
                let Some(header) = header else { continue };
                match with_name(&link_name(*number), header) {
                    Some(header) => objects.push(header),
                    None => misplaced.push(*number),
                }
            }
        }
        // Only now: what stands for an object that was not there any more had been put before, and is in this list.
        for names in chain::names(bucket, MERGED).await?.chunks(HEADS) {
            let headers = chain::heads(bucket, names).await?;
            let Some(headers) = headers.into_iter().collect::<Option<Vec<_>>>() else {
                return Ok(None);
            };
            let found = names.iter().zip(headers);
            objects.extend(found.filter_map(|(name, header)| with_name(name, header)));
        }
        Ok(Some((objects, misplaced)))
    }

    /// The catalog of these objects.
    pub(crate) fn of(
        url: String,
        objects: Vec<ArchiveHeader>,
        marks: Vec<(String, ArchiveHeader)>,
    ) -> Self {
        let merged = |object: &&ArchiveHeader| object.kind == ArchiveKind::Merged;
        let own = objects.iter().filter(|object| !merged(object));
        let mut links: BTreeMap<u64, ArchiveHeader> =
            own.map(|link| (link.number, *link)).collect();
        let mut wider: Vec<&ArchiveHeader> = objects.iter().filter(merged).collect();
        wider.sort_unstable_by_key(|object| (object.number - object.base, object.base));
        for object in wider {
            let (first, last) = object.numbers();
            // While all that it stands for is there, it has more states.
            let within = links.range(first..=last);
            let within: Vec<(u64, u64)> = within.map(|(at, link)| (*at, link.number)).collect();
            let next = within
                .iter()
                .fold(first, |next, (at, end)| match *at <= next {
                    true => next.max(end + 1),
                    false => next,
                });
            if next <= last {
                for (at, _) in within.iter().filter(|(_, end)| *end <= last) {
                    links.remove(at);
                }
                links.insert(first, *object);
            }
        }
        let (mut missing, mut unlinked) = (Vec::new(), Vec::new());
        let store = links.values().next_back().map(|link| link.store);
        let mut before: Option<&ArchiveHeader> = None;
        for (at, link) in &links {
            let next = before.map_or(*at, |before| before.number + 1);
            missing.extend(next..*at);
            let follows =
                before.is_none_or(|before| next != *at || before.end_crc() == link.previous_crc);
            if !follows || Some(link.store) != store {
                unlinked.push(*at);
            }
            before = before
                .filter(|before| before.number > link.number)
                .or(Some(link));
        }
        Self {
            url,
            missing,
            unlinked,
            links,
            marks,
            objects,
        }
    }

    /// The commits that have a name. The chain has them too, because a list of names may lag behind.
    pub(crate) fn marked(&self) -> BTreeSet<u64> {
        let marks = self.marks.iter().map(|(_, mark)| mark);
        let marks = marks.chain(&self.objects);
        let marks = marks.filter(|object| object.kind == ArchiveKind::Mark);
        marks.map(|mark| mark.last).collect()
    }

    /// The objects for which a merged one stands.
    pub(crate) fn replaced(&self) -> Vec<ArchiveHeader> {
        let mut objects = self.objects.clone();
        objects.sort_unstable_by_key(|object| {
            let (first, last) = object.numbers();
            (first, Reverse(last))
        });
        let mut reach = 0;
        objects.retain(|object| {
            let is_within = object.has_commits() && object.number <= reach;
            if object.kind == ArchiveKind::Merged {
                reach = reach.max(object.number);
            }
            is_within
        });
        objects
    }

    async fn load_marks(bucket: &dyn Bucket) -> Result<Vec<(String, ArchiveHeader)>, ArchiveError> {
        let names = bucket.list(MARKS).await;
        let names = names.map_err(|error| bucket_error(bucket, error))?;
        let heads = bucket.heads(&names, ARCHIVE_HEADER_BYTES).await;
        let heads = heads.map_err(|error| bucket_error(bucket, error))?;
        let mut marks = Vec::new();
        for (name, head) in names.into_iter().zip(heads) {
            let Some(head) = head else { continue };
            let header = ArchiveHeader::decode(&head);
            let header = header.map_err(|error| object_error(bucket, &name, error))?;
            let short = name.strip_prefix("mark/").unwrap_or(&name).to_string();
            marks.push((short, header));
        }
        marks.sort_by_key(|(_, header)| header.last);
        Ok(marks)
    }

    /// The ranges of commits, merged ones too, ascending.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = &ArchiveHeader> {
        let links = self.links.values();
        links.filter(|link| link.has_commits())
    }

    /// The complete bases, ascending.
    pub fn bases(&self) -> impl DoubleEndedIterator<Item = &ArchiveHeader> {
        let links = self.links.values();
        links.filter(|link| link.kind == ArchiveKind::Base)
    }

    /// The ranges that continue the state at commit `from` without a gap, up to the last one.
    pub fn ranges_behind(&self, from: Lsn) -> Vec<&ArchiveHeader> {
        let mut next = from.0 + 1;
        let mut ranges = Vec::new();
        let is_sound = |range: &ArchiveHeader| !self.unlinked.contains(&range.numbers().0);
        let mut number_before = None;
        for range in self.ranges().filter(|range| range.last > from.0) {
            // A missing object may have been a range.
            let skipped = number_before.is_some_and(|before: u64| {
                self.missing
                    .iter()
                    .any(|missing| (before..range.number).contains(missing))
            });
            if range.first > next || skipped || !is_sound(range) {
                break;
            }
            next = range.last + 1;
            number_before = Some(range.number);
            ranges.push(range);
        }
        ranges
    }

    /// The commits to which the store can be restored, ascending; those of a later base last. They may overlap. In between,
    /// states may be missing, as [`ArchiveHeader::inexact_from`] says: mostly because ranges were merged.
    pub fn restorable(&self) -> Vec<Restorable> {
        let mut all = Vec::new();
        for base in self.bases() {
            let ranges = self.ranges_behind(Lsn(base.first));
            let end = ranges.last();
            let (last, unix_ms) = end.map_or((base.first, base.unix_ms), |range| {
                (range.last, range.unix_ms)
            });
            let first = exact_after(&ranges, Lsn(base.last));
            let last = exact_before(&ranges, Lsn(last));
            if first <= last {
                all.push(Restorable {
                    first,
                    last,
                    unix_ms,
                    base: base.number,
                });
            }
        }
        all
    }

    /// The last commit up to `lsn` to which the store can be restored.
    pub(crate) fn restorable_before(&self, lsn: Lsn) -> Option<Lsn> {
        let parts = self.restorable().into_iter();
        let parts = parts.filter_map(|part| {
            let ranges = self.ranges_behind(Lsn(self.links[&part.base].first));
            let last = exact_before(&ranges, lsn.min(part.last));
            (part.first <= last).then_some(last)
        });
        parts.max()
    }

    /// The store's shape at object `number`. It changes only when a store grows while it is closed.
    ///
    /// # Errors
    /// When no opening or base can be read.
    pub async fn shape(
        &self,
        bucket: &dyn Bucket,
        number: u64,
    ) -> Result<StoreShape, ArchiveError> {
        let tells =
            |link: &&ArchiveHeader| matches!(link.kind, ArchiveKind::Opening | ArchiveKind::Base);
        let before = self.links.range(..=number).map(|(_, link)| link);
        let after = self.links.range(number..).map(|(_, link)| link);
        let link = before
            .rev()
            .find(tells)
            .or_else(|| after.clone().find(tells));
        let Some(link) = link else {
            return Err(ArchiveError::Missing {
                url: self.url.clone(),
                name: "of an opening of the store".into(),
                first: Lsn(1),
                last: Lsn(number),
            });
        };
        let object = PlannedObject::of_chain(link, Lsn(link.last));
        let payload = object.fetch(bucket).await?;
        let shape = match link.kind {
            ArchiveKind::Base => {
                ArchiveBase::decode(&payload).map(|base| (base.block_size, base.size_blocks))
            }
            _ => ArchiveOpening::decode(&payload)
                .map(|opening| (opening.block_size, opening.size_blocks)),
        };
        let (block_size, size_blocks) =
            shape.map_err(|error| object_error(bucket, &object.name, error))?;
        Ok(StoreShape {
            store: link.store,
            block_size,
            size_blocks,
        })
    }

    /// The payload of base `number`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn base(
        &self,
        bucket: &dyn Bucket,
        number: u64,
    ) -> Result<ArchiveBase, ArchiveError> {
        let header = &self.links[&number];
        let object = PlannedObject::of_chain(header, Lsn(header.last));
        let payload = object.fetch(bucket).await?;
        ArchiveBase::decode(&payload).map_err(|error| object_error(bucket, &object.name, error))
    }

    /// All objects of the chain, and the parts of bases as far as those can be read.
    ///
    /// # Errors
    /// When the bucket fails.
    pub async fn objects(&self, bucket: &dyn Bucket) -> Result<Vec<PlannedObject>, ArchiveError> {
        let mut objects = Vec::new();
        for link in self.links.values() {
            let last = Lsn(link.last);
            objects.push(PlannedObject::of_chain(link, last));
            if link.kind == ArchiveKind::Base {
                match self.base(bucket, link.number).await {
                    Ok(base) => objects.extend(PlannedObject::parts(link, &base, (last, last))),
                    Err(error @ ArchiveError::Bucket { .. }) => return Err(error),
                    // A fetch of the base itself tells what is wrong.
                    Err(_) => {}
                }
            }
        }
        Ok(objects)
    }
}

/// `header`, if that is what an object of this name has.
fn with_name(name: &str, header: ArchiveHeader) -> Option<ArchiveHeader> {
    (object_name(&header) == name).then_some(header)
}

/// The range because of which the state at commit `lsn` cannot be had from `ranges`.
pub(crate) fn inexact_at<'a>(ranges: &[&'a ArchiveHeader], lsn: Lsn) -> Option<&'a ArchiveHeader> {
    let used = ranges.iter().filter(|range| range.first <= lsn.0);
    let mut used = used.copied();
    used.find(|range| (range.inexact_from..range.exact_from).contains(&lsn.0))
}

/// The first commit from `lsn` on whose state can be had.
pub(crate) fn exact_after(ranges: &[&ArchiveHeader], mut lsn: Lsn) -> Lsn {
    while let Some(range) = inexact_at(ranges, lsn) {
        lsn = Lsn(range.exact_from);
    }
    lsn
}

/// The last commit up to `lsn` whose state can be had.
pub(crate) fn exact_before(ranges: &[&ArchiveHeader], mut lsn: Lsn) -> Lsn {
    while let Some(range) = inexact_at(ranges, lsn) {
        lsn = Lsn(range.inexact_from - 1);
    }
    lsn
}

//! What an archive has.

use crate::bucket::Bucket;
use crate::chain::{link_number, mark_name, object_error};
use crate::error::{ArchiveError, advice};
use crate::planned::PlannedObject;
use crate::source::StoreShape;
use async_recursion::async_recursion as boxed;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use tonearm_base::Lsn;
use tonearm_format::{ArchiveBase, ArchiveHeader, ArchiveKind, ArchiveOpening, FormatError, Uuid};

/// The objects of an archive, as far as their headers say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Catalog {
    /// What people call the place.
    pub url: String,
    /// Headers of the chain's objects by number, each number once: where objects are deleted because a merged one stands for
    /// them, its header is at the first of their numbers.
    pub links: BTreeMap<u64, ArchiveHeader>,
    /// Numbers between the first and the last object at which there is none that can be used, and for which no other one
    /// stands: the first and the last number of each hole.
    pub missing: Vec<(u64, u64)>,
    /// Numbers of objects that do not name the one before them, are of another store, or have another number in their header.
    pub unlinked: Vec<u64>,
    /// Objects that the list has, and that cannot be used.
    pub unread: Vec<Unread>,
    /// Names that are none of an object.
    pub strays: Vec<String>,
    /// Marks: name and header.
    pub marks: Vec<(String, ArchiveHeader)>,
    /// Headers of all objects of the chain, and of all merged ones.
    pub(crate) objects: Vec<ArchiveHeader>,
    /// Bases that no plan uses, because one of their objects is damaged.
    left_out: BTreeSet<u64>,
}

/// Commits to which a store can be restored: from the first to the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restorable {
    /// First commit.
    pub first: Lsn,
    /// Last commit.
    pub last: Lsn,
    /// The last commit of which there are changes. States between `last` and this one cannot be had.
    pub changed: Lsn,
    /// Milliseconds since 1970 at which the first one can be had at the latest.
    pub first_unix_ms: u64,
    /// Milliseconds since 1970 at which the last one was durable.
    pub unix_ms: u64,
    /// Number of the base.
    pub base: u64,
}

/// An object that the list has, and that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unread {
    /// Its name.
    pub name: String,
    /// What is wrong with its header. `None`: the bucket answers that there is no such object, or one shorter than a header.
    pub error: Option<FormatError>,
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.error {
            Some(error @ FormatError::Version { .. }) => {
                write!(f, "object {}: {error}; {}", self.name, advice(error))
            }
            Some(error) => write!(f, "object {}: {error}", self.name),
            None => write!(
                f,
                "object {} is listed, and the bucket answers that there is none, or it is cut off",
                self.name
            ),
        }
    }
}

impl Catalog {
    /// The catalog of these objects.
    pub(crate) fn of(
        url: String,
        objects: Vec<ArchiveHeader>,
        marks: Vec<(String, ArchiveHeader)>,
    ) -> Self {
        let store = store_of(&objects);
        let (objects, foreign): (Vec<_>, Vec<_>) = objects
            .into_iter()
            .partition(|object| Some(object.store) == store);
        let (marks, strays): (Vec<_>, Vec<_>) = marks
            .into_iter()
            .partition(|(_, mark)| Some(mark.store) == store);
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
            let mut next = first;
            for (at, end) in &within {
                if *at <= next {
                    next = next.max(end + 1);
                }
            }
            if next <= last {
                for (at, _) in within.iter().filter(|(_, end)| *end <= last) {
                    links.remove(at);
                }
                links.insert(first, *object);
            }
        }
        let (mut missing, mut unlinked) = (Vec::new(), Vec::new());
        let mut before: Option<&ArchiveHeader> = None;
        for (at, link) in &links {
            if let Some(before) = before {
                if before.number + 1 < *at {
                    missing.push((before.number + 1, at - 1));
                }
                if !joins(before, link) {
                    unlinked.push(*at);
                }
            }
            before = before
                .filter(|before| before.number > link.number)
                .or(Some(link));
        }
        unlinked.extend(foreign.iter().map(|object| object.numbers().0));
        unlinked.sort_unstable();
        Self {
            url,
            missing,
            unlinked,
            unread: Vec::new(),
            strays: strays.iter().map(|(name, _)| mark_name(name)).collect(),
            links,
            marks,
            objects,
            left_out: BTreeSet::new(),
        }
    }

    /// Plans without base `number`: an older base and the ranges after it give the same states.
    pub fn leave_out(&mut self, number: u64) {
        self.left_out.insert(number);
    }

    /// Notes objects that cannot be used, and names that are none of an object.
    pub(crate) fn note_unusable(
        &mut self,
        misplaced: Vec<u64>,
        unread: Vec<Unread>,
        strays: Vec<String>,
    ) {
        self.unlinked.extend(misplaced);
        self.unlinked.sort_unstable();
        self.unread = unread;
        self.strays.extend(strays);
    }

    /// What is wrong with the archive, one sentence for each object or hole.
    pub fn faults(&self) -> Vec<String> {
        let unread = self
            .unread
            .iter()
            .map(|unread| (number_in(unread), unread.to_string()));
        let unlinked = self.unlinked.iter().map(|number| {
            let text =
                format!("object {number:016x} of the chain does not follow the one before it");
            (*number, text)
        });
        let mut faults: Vec<(u64, String)> = unread.chain(unlinked).collect();
        let reported: BTreeSet<u64> = faults.iter().map(|(number, _)| *number).collect();
        let lost = self
            .lost_begin()
            .into_iter()
            .chain(self.missing.iter().copied());
        for (first, last) in lost {
            let mut next = first;
            for known in reported.range(first..=last).copied().chain([last + 1]) {
                let text = match known.checked_sub(1) {
                    Some(end) if end == next => {
                        format!("object {next:016x} of the chain is missing")
                    }
                    Some(end) if end > next => {
                        format!("objects {next:016x} to {end:016x} of the chain are missing")
                    }
                    _ => String::new(),
                };
                if !text.is_empty() {
                    faults.push((next, text));
                }
                next = known + 1;
            }
        }
        faults.sort();
        faults.into_iter().map(|(_, text)| text).collect()
    }

    /// The numbers before the first object that should be there: bases say from which number on the chain is kept.
    fn lost_begin(&self) -> Option<(u64, u64)> {
        let (first, _) = self.links.first_key_value()?;
        let said = self.bases().map(ArchiveHeader::kept_from).max();
        let kept_from = said.unwrap_or(1);
        (kept_from < *first).then(|| (kept_from, first - 1))
    }

    /// A commit that the archive has had, as something of it says, and that is later than all whose changes can be used: no
    /// state that it gives is the latest one. And a sentence about why that is so.
    pub(crate) fn lost_after(&self, changed: Lsn) -> Option<String> {
        let links = self.links.values().map(|link| match link.kind {
            ArchiveKind::Merged => Lsn(link.last),
            _ => link.archived(),
        });
        let marks = self.marks.iter().map(|(_, mark)| Lsn(mark.last));
        let known = links.chain(marks).max().filter(|known| *known > changed);
        if let Some(known) = known {
            return Some(format!("the archive has had commits up to {known}"));
        }
        // A damaged object at the end may have had later commits. One beyond a hole is no part of the chain: the last
        // objects of a chain are never deleted.
        let end = self.links.values().map(|link| link.number).max();
        let next = end.unwrap_or(0) + 1;
        let mut unusable = self
            .unread
            .iter()
            .map(number_in)
            .chain(self.unlinked.iter().copied());
        unusable
            .any(|number| number == next)
            .then(|| format!("object {next:016x} of the chain, the last one, cannot be used"))
    }

    /// The commits that have a name. The chain has them too, because a list of names may lag behind.
    pub(crate) fn marked(&self) -> BTreeSet<u64> {
        let marks = self.marks.iter().map(|(_, mark)| mark);
        let marks = marks.chain(&self.objects);
        let marks = marks.filter(|object| object.kind == ArchiveKind::Mark);
        marks.map(|mark| mark.last).collect()
    }

    /// The objects for which a merged one stands that `is_used`.
    pub(crate) fn replaced(&self, is_used: impl Fn(&ArchiveHeader) -> bool) -> Vec<ArchiveHeader> {
        let mut objects = self.objects.clone();
        objects.sort_unstable_by_key(|object| {
            let (first, last) = object.numbers();
            (first, Reverse(last))
        });
        let mut reach = 0;
        objects.retain(|object| {
            let is_within = object.has_commits() && object.number <= reach;
            if object.kind == ArchiveKind::Merged && is_used(object) {
                reach = reach.max(object.number);
            }
            is_within
        });
        objects
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

    /// The ranges that `base` needs, and those that continue its state without a gap, up to the last one; ascending. `None`
    /// when one is missing that the base itself needs.
    ///
    /// They are found from the base on, from object to object, because only so it is known that they belong to its history: a
    /// writer that has stalled for long may have put an object at a number that was free again. At a hole the commits must go
    /// on exactly: then no object with commits is missing there.
    pub fn ranges_of(&self, base: &ArchiveHeader) -> Option<Vec<&ArchiveHeader>> {
        let (mut ranges, mut after) = (Vec::new(), base);
        // All ranges up to this commit were put before the base was.
        let changed = base.exact_from.max(base.last);
        let (mut low, mut is_hole) = (changed + 1, false);
        let before = self.links.range(..base.number).rev().map(|(_, link)| link);
        for link in before {
            if low <= base.first + 1 || !joins(link, after) {
                break;
            }
            is_hole |= link.number + 1 < after.numbers().0;
            after = link;
            if !link.has_commits() {
                continue;
            }
            if link.last + 1 < low || is_hole && link.last + 1 != low {
                break;
            }
            (low, is_hole) = (low.min(link.first), false);
            ranges.push(link);
        }
        if low > base.first + 1 {
            return None;
        }
        ranges.reverse();
        let (mut before, mut high, mut is_hole) = (base, changed, false);
        for link in self.links.range(base.number + 1..).map(|(_, link)| link) {
            if !joins(before, link) {
                break;
            }
            is_hole |= before.number + 1 < link.numbers().0;
            if link.number > before.number {
                before = link;
            }
            if !link.has_commits() {
                continue;
            }
            if link.first > high + 1 || is_hole && link.first != high + 1 {
                break;
            }
            (high, is_hole) = (high.max(link.last), false);
            ranges.push(link);
        }
        Some(ranges)
    }

    /// The commits to which the store can be restored, ascending; those of a later base last. They may overlap. In between,
    /// states may be missing, as [`ArchiveHeader::inexact_from`] says: mostly because ranges were merged.
    pub fn restorable(&self) -> Vec<Restorable> {
        let mut all = Vec::new();
        let usable = |base: &&ArchiveHeader| !self.left_out.contains(&base.number);
        for base in self.bases().filter(usable) {
            let Some(ranges) = self.ranges_of(base) else {
                continue;
            };
            let (changed, unix_ms) = ranges
                .iter()
                .map(|range| (range.last, range.unix_ms))
                .fold((base.last, base.unix_ms), std::cmp::max);
            let first = exact_after(&ranges, Lsn(base.last));
            let last = exact_before(&ranges, Lsn(changed));
            if first <= last {
                all.push(Restorable {
                    first,
                    last,
                    changed: Lsn(changed),
                    first_unix_ms: base.unix_ms,
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
            let ranges = self.ranges_of(&self.links[&part.base])?;
            let last = exact_before(&ranges, lsn.min(part.last));
            (part.first <= last).then_some(last)
        });
        parts.max()
    }

    /// The store's shape at object `number`. It changes only when a store grows while it is closed.
    ///
    /// # Errors
    /// When no opening or base can be read.
    #[boxed(?Send)]
    pub async fn shape(
        &self,
        bucket: &dyn Bucket,
        number: u64,
    ) -> Result<StoreShape, ArchiveError> {
        let tells =
            |link: &&ArchiveHeader| matches!(link.kind, ArchiveKind::Opening | ArchiveKind::Base);
        let before = self.links.range(..=number).map(|(_, link)| link);
        let mut before = before.rev().filter(tells);
        let after = self.links.range(number..).map(|(_, link)| link);
        // A later one is not smaller, if the right one cannot be read.
        let nearest = before.next().into_iter();
        let mut failed = None;
        for link in nearest.chain(after.filter(tells)).chain(before) {
            match self.shape_in(bucket, link).await {
                Err(
                    error @ (ArchiveError::Object { .. }
                    | ArchiveError::Missing { .. }
                    | ArchiveError::Unlinked { .. }),
                ) => failed = failed.or(Some(error)),
                found => return found,
            }
        }
        Err(failed.unwrap_or_else(|| ArchiveError::Missing {
            url: self.url.clone(),
            name: "of an opening of the store".into(),
            first: Lsn(1),
            last: Lsn(number),
        }))
    }

    /// The shape that an opening or a base has.
    async fn shape_in(
        &self,
        bucket: &dyn Bucket,
        link: &ArchiveHeader,
    ) -> Result<StoreShape, ArchiveError> {
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
    #[boxed(?Send)]
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

    /// All objects of the chain, and the parts of bases as far as those can be read. Also, what is wrong with the others.
    ///
    /// # Errors
    /// When the bucket fails.
    #[boxed(?Send)]
    pub async fn objects(
        &self,
        bucket: &dyn Bucket,
    ) -> Result<(Vec<PlannedObject>, Vec<String>), ArchiveError> {
        let (mut objects, mut faults) = (Vec::new(), Vec::new());
        for link in self.links.values() {
            let last = Lsn(link.last);
            objects.push(PlannedObject::of_chain(link, last));
            if link.kind == ArchiveKind::Base {
                match self.base(bucket, link.number).await {
                    Ok(base) => objects.extend(PlannedObject::parts(link, &base, (last, last))),
                    Err(error @ ArchiveError::Bucket { .. }) => return Err(error),
                    // A fetch of the base itself finds that.
                    Err(ArchiveError::Missing { .. }) => {}
                    Err(error) => faults.push(error.to_string()),
                }
            }
        }
        Ok((objects, faults))
    }
}

/// The store of an archive: that of most of its objects. One object of another store is no reason to use none.
fn store_of(objects: &[ArchiveHeader]) -> Option<Uuid> {
    let mut counts: BTreeMap<Uuid, usize> = BTreeMap::new();
    for object in objects {
        *counts.entry(object.store).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(store, _)| store)
}

/// The number in the chain of an object that cannot be used; 0 when it is not in the chain.
pub(crate) fn number_in(unread: &Unread) -> u64 {
    link_number(&unread.name).unwrap_or(0)
}

/// False when `link` is the next object of the chain after `before`, and names another one. It is not known when objects
/// between the two are missing.
fn joins(before: &ArchiveHeader, link: &ArchiveHeader) -> bool {
    link.numbers().0 != before.number + 1 || before.end_crc() == link.previous_crc
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

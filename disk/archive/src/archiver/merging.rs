//! Old ranges are merged, so that an archive of many days has few objects.
//!
//! A merged object is put, and what it stands for is deleted once a list shows it. A crash between the two leaves both, and
//! the next archiver deletes, once it has read the merged object: another writer may have put it. To delete is safe at any
//! time and for any writer, because the merged object is there and gives the same state. That a writer whose place is taken
//! does not do it any more keeps states that the new one may want.
//!
//! One step is one request to the bucket, or one object that is read: the archiver makes them in the time in which it would
//! wait.

use super::groups::{self, Group};
use super::{Archiver, Placed};
use crate::bucket::{Bucket, BucketError};
use crate::catalog::Catalog;
use crate::chain::{self, MERGED, bucket_error, link_name, object_name};
use crate::error::ArchiveError;
use crate::merge::Merge;
use crate::object::Packer;
use crate::planned::PlannedObject;
use std::collections::BTreeSet;
use tonearm_base::{Lsn, Nanos};
use tonearm_format::{ArchiveHeader, ArchiveKind};

/// Objects that are deleted in one step.
const DELETES: usize = 16;
/// A range that has more bytes than so many objects is not read to be merged. No archiver has put it.
const READ_OBJECTS: u64 = 8;
/// An earlier archiver may have put objects of this size.
const READ_BYTES_MIN: u64 = 16 << 20;

/// What is known of the archive for the merging of ranges.
#[derive(Default)]
pub(super) struct Merging {
    /// What is there and was listed; `None` before it has been read.
    catalog: Option<Catalog>,
    /// Merged objects that were put and have not been listed yet.
    unlisted: Vec<ArchiveHeader>,
    /// Level and first number of objects that are too large to be merged with the next one.
    single: BTreeSet<(u8, u64)>,
    /// The numbers of merged objects that this archiver has put or read.
    sound: BTreeSet<(u64, u64)>,
    /// Those of merged objects that cannot be read. Nothing is deleted for them.
    unsound: BTreeSet<(u64, u64)>,
    /// First numbers of objects that are damaged.
    unreadable: BTreeSet<u64>,
    /// What is damaged of them, and of what was to stand for them.
    damage: Option<String>,
    job: Option<Job>,
    /// Before then it is not looked for ranges to merge.
    rests_until: Nanos,
    /// Why ranges are not merged any more.
    stopped: Option<String>,
}

/// What is being done.
enum Job {
    /// Ranges are read and merged.
    Read {
        group: Group,
        /// Ranges that are in `merge`.
        taken: usize,
        merge: Merge,
    },
    /// A merged object of another archiver is read.
    Check(ArchiveHeader),
    /// Objects for which others stand are deleted, the last one first.
    Delete(Vec<ArchiveHeader>),
}

impl Merging {
    /// An object of the chain was put.
    pub(super) fn note(&mut self, header: &ArchiveHeader) {
        if let Some(catalog) = &mut self.catalog {
            catalog.objects.push(*header);
        }
    }

    /// Objects were deleted, or are not what was thought.
    pub(super) fn forget(&mut self) {
        (self.catalog, self.job) = (None, None);
        self.unlisted.clear();
    }

    /// A merged object because of which one of `replaced` would be deleted, and that nobody has read.
    fn unread(&self, catalog: &Catalog, replaced: &[ArchiveHeader]) -> Option<ArchiveHeader> {
        let stands = |object: &&ArchiveHeader| {
            let ((first, last), own) = (object.numbers(), object.numbers());
            let is_within = |it: &ArchiveHeader| {
                let (from, to) = it.numbers();
                from >= first && to <= last && (from, to) != own
            };
            object.kind == ArchiveKind::Merged
                && !self.sound.contains(&own)
                && !self.unsound.contains(&own)
                && replaced.iter().any(is_within)
        };
        catalog.objects.iter().find(stands).copied()
    }

    /// Merged objects that were put and have not been listed yet.
    pub(super) fn unlisted(&self) -> &[ArchiveHeader] {
        &self.unlisted
    }
}

/// True when `found` stands for the same objects as `own`.
fn stands_for(found: &ArchiveHeader, own: &ArchiveHeader) -> bool {
    let ends = |header: &ArchiveHeader| {
        (
            header.numbers(),
            (header.first, header.last),
            (header.previous_crc, header.digest),
        )
    };
    (found.kind, found.store) == (own.kind, own.store) && ends(found) == ends(own)
}

impl Archiver<'_> {
    /// Makes one step. False when there is nothing to do now.
    pub(super) async fn step_merging(&mut self) -> Result<bool, ArchiveError> {
        let is_on = self.options.keep_every_commit_ms > 0 && self.merging.stopped.is_none();
        if !is_on || self.source.now() < self.merging.rests_until {
            return Ok(false);
        }
        let stepped = self.merging_step().await;
        match stepped {
            Ok(true) => {
                self.info.unmerged.clone_from(&self.merging.damage);
                return Ok(true);
            }
            Ok(false) => {}
            // Ranges may have been merged by a writer before this one, whose last request has just arrived.
            Err(ArchiveError::Missing { .. } | ArchiveError::Unlinked { .. })
            | Err(ArchiveError::Changing { .. }) => self.merging.forget(),
            // The keys may put objects, and neither read nor delete them. Commits do not wait for that.
            Err(error @ (ArchiveError::Object { .. } | ArchiveError::Bucket { .. })) => {
                self.merging.forget();
                self.info.unmerged = Some(error.to_string());
                if matches!(error, ArchiveError::Object { .. }) {
                    self.merging.stopped = Some(error.to_string());
                }
            }
            Err(error) => return Err(error),
        }
        let rest = Nanos::from_millis(self.options.levels[0].span_ms / 8);
        self.merging.rests_until = self.source.now() + rest.0;
        Ok(false)
    }

    async fn merging_step(&mut self) -> Result<bool, ArchiveError> {
        match self.merging.job.take() {
            Some(Job::Read {
                group,
                taken,
                merge,
            }) => self.read_range(group, taken, merge).await?,
            Some(Job::Check(object)) => self.check(&object).await?,
            Some(Job::Delete(objects)) => self.delete(objects).await?,
            None => return self.find_work().await,
        }
        Ok(true)
    }

    /// Begins what is to be done next; false when that is nothing.
    async fn find_work(&mut self) -> Result<bool, ArchiveError> {
        if self.merging.catalog.is_none() {
            // Many requests: when one fails, commits do not wait until all are answered.
            match Catalog::load(self.bucket).await {
                Err(ArchiveError::Bucket {
                    error: BucketError::Transient(_),
                    ..
                }) => return Ok(false),
                loaded => self.merging.catalog = Some(loaded?),
            }
        }
        if !self.merging.unlisted.is_empty() {
            let names = self.ask(async |bucket| chain::names(bucket, MERGED).await);
            let names = names.await?;
            let names: BTreeSet<String> = names.into_iter().collect();
            let unlisted = std::mem::take(&mut self.merging.unlisted).into_iter();
            let (listed, unlisted) = unlisted.partition(|it| names.contains(&object_name(it)));
            self.merging.unlisted = unlisted;
            if let Some(catalog) = &mut self.merging.catalog {
                let listed: Vec<ArchiveHeader> = listed;
                catalog.objects.extend(listed);
            }
        }
        let Some(known) = self.merging.catalog.take() else {
            return Ok(false);
        };
        let unsound = &self.merging.unsound;
        let mut replaced = known.replaced(|merged| !unsound.contains(&merged.numbers()));
        let catalog = Catalog::of(known.url, known.objects, known.marks);
        if let Some(object) = self.merging.unread(&catalog, &replaced) {
            self.merging.job = Some(Job::Check(object));
        } else if replaced.is_empty() {
            let limits = groups::Limits {
                levels: &self.options.levels,
                keep_ms: self.options.keep_every_commit_ms,
                ages: &self.ages,
                now: self.source.now(),
                bytes_max: READ_OBJECTS * (self.options.object_bytes as u64).max(READ_BYTES_MIN),
                number: self.number,
            };
            let unlisted = &self.merging.unlisted;
            let (single, unreadable) = (&self.merging.single, &self.merging.unreadable);
            let group = groups::next(&catalog, &limits, unlisted, single, unreadable);
            self.merging.job = group.map(|group| Job::Read {
                group,
                taken: 0,
                merge: Merge::new(self.shape.block_size),
            });
        } else {
            replaced.reverse();
            self.merging.job = Some(Job::Delete(replaced));
        }
        self.merging.catalog = Some(catalog);
        Ok(self.merging.job.is_some())
    }

    /// Reads the next range of the group. Puts the merged object when there is none, or when it would become too large.
    async fn read_range(
        &mut self,
        group: Group,
        taken: usize,
        mut merge: Merge,
    ) -> Result<(), ArchiveError> {
        let Some(range) = group.ranges.get(taken) else {
            let payload = group.payload(&merge, taken);
            return self.put_merged(&group, taken, &payload).await;
        };
        let size_max = self.options.object_bytes;
        let may_be_too_large = merge.len() as u64 + range.raw_bytes > size_max as u64;
        let before = may_be_too_large.then(|| group.payload(&merge, taken));
        let object = PlannedObject::of_chain(range, Lsn(range.last));
        let payload = self.ask(async |bucket| object.fetch(bucket).await);
        let added = match payload.await {
            Ok(payload) => merge.add(&payload).is_ok(),
            Err(ArchiveError::Object { .. }) => false,
            Err(error) => return Err(error),
        };
        if !added {
            // `archive verify` reports it.
            self.merging.unreadable.insert(range.numbers().0);
            let name = object_name(range);
            self.merging.damage = Some(format!("object {name} cannot be read, and is left out"));
            return Ok(());
        }
        match before {
            Some(before) if merge.len() > size_max => {
                if taken >= 2 {
                    return self.put_merged(&group, taken, &before).await;
                }
                let single = (group.level, group.ranges[0].numbers().0);
                self.merging.single.insert(single);
            }
            _ => {
                self.merging.job = Some(Job::Read {
                    group,
                    taken: taken + 1,
                    merge,
                });
            }
        }
        Ok(())
    }

    /// Puts the object that stands for the first `taken` ranges of the group.
    async fn put_merged(
        &mut self,
        group: &Group,
        taken: usize,
        payload: &[u8],
    ) -> Result<(), ArchiveError> {
        self.check_place().await?;
        let ranges = &group.ranges[..taken];
        let (first, last) = (&ranges[0], &ranges[taken - 1]);
        let exact_from = ranges.iter().map(|range| range.exact_from).max();
        let mut header = self.header(ArchiveKind::Merged, first.first, last.last);
        // As the range that it ends with: what stamps say of time depends on the epoch.
        (header.number, header.epoch) = (last.number, last.epoch);
        header.base = first.numbers().0;
        header.previous_crc = first.previous_crc;
        header.digest = last.end_crc();
        header.unix_ms = last.unix_ms;
        header.inexact_from = header.first;
        header.exact_from = header.last.max(exact_from.unwrap_or(0));
        header.level = group.level;
        let (header, object) = Packer::of(payload).seal(self.bucket.keys(), header);
        let name = object_name(&header);
        match self.put(&name, &object).await? {
            Placed::Own => {
                self.merging.sound.insert(header.numbers());
            }
            // A writer before this one has put it meanwhile. It has the same states.
            Placed::Other(Ok(found)) if stands_for(&found, &header) => {
                self.merging.forget();
                return Ok(());
            }
            // The ranges stay. They would be merged for ever.
            Placed::Other(_) => {
                self.merging.unreadable.insert(first.numbers().0);
                self.merging.damage = Some(format!(
                    "object {name} is damaged or none of this archive, so what it stands for is not merged; delete it, and start \
                     the archive anew"
                ));
                return Ok(());
            }
        }
        self.info.merged += taken as u64;
        self.merging.unlisted.push(header);
        Ok(())
    }

    /// Reads a merged object of another archiver.
    async fn check(&mut self, header: &ArchiveHeader) -> Result<(), ArchiveError> {
        let object = PlannedObject::of_chain(header, Lsn(header.last));
        let payload = self.ask(async |bucket| object.fetch(bucket).await);
        let is_sound = match payload.await {
            Ok(payload) => Merge::new(self.shape.block_size).add(&payload).is_ok(),
            Err(ArchiveError::Object { .. }) => false,
            Err(error) => return Err(error),
        };
        if is_sound {
            self.merging.sound.insert(header.numbers());
        } else {
            self.merging.unsound.insert(header.numbers());
            let name = object_name(header);
            self.merging.damage = Some(format!(
                "object {name} cannot be read, so what it stands for is not deleted"
            ));
        }
        Ok(())
    }

    /// Deletes the last ones of `objects`.
    async fn delete(&mut self, mut objects: Vec<ArchiveHeader>) -> Result<(), ArchiveError> {
        self.check_place().await?;
        for _ in 0..DELETES.min(objects.len()) {
            let Some(object) = objects.pop() else { break };
            let name = object_name(&object);
            self.ask(async |bucket| {
                let deleted = bucket.delete(&name).await;
                deleted.map_err(|error| bucket_error(bucket, error))
            })
            .await?;
            if let Some(catalog) = &mut self.merging.catalog {
                catalog.objects.retain(|known| *known != object);
            }
        }
        if !objects.is_empty() {
            self.merging.job = Some(Job::Delete(objects));
        }
        Ok(())
    }

    /// Repeats a request that only the merging needs until the bucket answers, also that it is denied.
    async fn ask<T>(
        &mut self,
        request: impl AsyncFn(&dyn Bucket) -> Result<T, ArchiveError>,
    ) -> Result<T, ArchiveError> {
        let may_pass =
            |_: &Self, error: &BucketError, _| matches!(error, BucketError::Transient(_));
        self.repeat(request, may_pass).await
    }

    /// Fails when another opening has taken the place of this one.
    pub(super) async fn check_place(&mut self) -> Result<(), ArchiveError> {
        if let Some(next) = self.follower().await? {
            return Err(self.fenced(&link_name(next.number)).await);
        }
        // What the other one has put there may be too old to be kept. Then so is the object before it.
        self.has_last(self.number + 1).await.map(drop)
    }
}

//! Which objects restore a state.

use crate::bucket::Bucket;
use crate::catalog::{Catalog, Restorable, exact_after, exact_before, inexact_at};
use crate::chain::{BASES, folder_of, link_name, object_error};
use crate::error::ArchiveError;
use crate::extract::Extract;
use crate::planned::PlannedObject;
use crate::source::StoreShape;
use async_recursion::async_recursion as boxed;
use tonearm_base::{Lsn, crc32c};
use tonearm_format::{ArchiveEntry, ArchiveHeader, ArchiveKind, ArchiveReader};

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
    /// Numbers of newer bases that are not used, because an object of theirs is damaged, and what is wrong with each.
    pub left_out: Vec<(u64, String)>,
    /// Number of the base.
    pub base: u64,
    /// Number of the folder of its parts.
    pub folder: u64,
}

impl Plan {
    /// Plans to restore `target`. A base whose object is damaged is left out when an older one gives that state, too.
    ///
    /// # Errors
    /// When there is no way to that state, with the states to which there is one.
    #[boxed(?Send)]
    pub async fn make(
        bucket: &dyn Bucket,
        catalog: &Catalog,
        target: &Target,
    ) -> Result<Self, ArchiveError> {
        let (mut rest, mut left_out, mut first) = (None::<Catalog>, Vec::new(), None);
        loop {
            let usable = rest.as_ref().unwrap_or(catalog);
            match (Self::make_once(bucket, usable, target).await, &first) {
                (Ok(Ok(plan)), _) => return Ok(Self { left_out, ..plan }),
                (Ok(Err((base, error))), _) => {
                    rest.get_or_insert_with(|| catalog.clone()).leave_out(base);
                    left_out.push((base, error.damage().unwrap_or_default()));
                    first = first.or(Some(error));
                }
                (Err(ArchiveError::NotRestorable { url, what, ranges }), Some(damage)) => {
                    if usable.restorable().is_empty() {
                        return Err(first.expect("it was matched"));
                    }
                    let what = format!("{what} ({damage})");
                    return Err(ArchiveError::NotRestorable { url, what, ranges });
                }
                (Err(error), _) => return Err(error),
            }
        }
    }

    /// The plan with the newest base; or else that base, and what is wrong with its object.
    async fn make_once(
        bucket: &dyn Bucket,
        catalog: &Catalog,
        target: &Target,
    ) -> Result<Result<Self, (u64, ArchiveError)>, ArchiveError> {
        let restorable = catalog.restorable();
        let refuse = |what: String| ArchiveError::NotRestorable {
            url: catalog.url.clone(),
            what,
            ranges: describe(&restorable),
        };
        let lsn = match target {
            Target::Latest => latest(catalog, &restorable).map_err(refuse)?,
            Target::Lsn(lsn) => *lsn,
            Target::Mark(name) => {
                let mut marks = catalog.marks.iter();
                let Some((_, mark)) = marks.find(|(known, _)| known == name) else {
                    return Err(ArchiveError::NoMark {
                        url: catalog.url.clone(),
                        name: name.clone(),
                    });
                };
                Lsn(mark.last)
            }
            Target::Time(unix_ms) => {
                let last = last_at(bucket, catalog, *unix_ms).await?;
                at_time(catalog, &restorable, last).map_err(|what| ArchiveError::NotRestorable {
                    url: catalog.url.clone(),
                    what: format!("the state at {} {what}", utc(*unix_ms)),
                    ranges: describe_times(&restorable),
                })?
            }
        };
        let within = |part: &&Restorable| part.first <= lsn && lsn <= part.last;
        let Some(part) = restorable.iter().rev().find(within) else {
            return Err(refuse(format!("commit {lsn} cannot be restored")));
        };
        let base = catalog.links[&part.base];
        let ranges = catalog.ranges_of(&base).unwrap_or_default();
        check_exact(&ranges, lsn).map_err(refuse)?;
        let used: Vec<_> = ranges
            .into_iter()
            .filter(|range| range.first <= lsn.0)
            .collect();
        let parts = match catalog.base(bucket, base.number).await {
            Err(error) if error.damaged_object().is_some() => {
                return Ok(Err((base.number, error)));
            }
            parts => parts?,
        };
        let mut objects: Vec<PlannedObject> =
            PlannedObject::parts(&base, &parts, (part.first, part.last)).collect();
        let ranges = used.iter();
        objects.extend(ranges.map(|range| PlannedObject::of_chain(range, part.last)));
        let number = used.last().map_or(base.number, |range| range.number);
        Ok(Ok(Self {
            lsn,
            shape: catalog.shape(bucket, number).await?,
            objects,
            left_out: Vec::new(),
            base: base.number,
            folder: parts.folder,
        }))
    }

    /// The base, when `error` says that one of its objects is missing or damaged: a plan without it may give the same state
    /// ([`Catalog::leave_out`]).
    pub fn damaged_base(&self, error: &ArchiveError) -> Option<u64> {
        let name = error.damaged_object()?;
        let is_part = name.starts_with(BASES) && folder_of(name) == Some(self.folder);
        (is_part || name == link_name(self.base)).then_some(self.base)
    }

    /// The objects that may change one of the blocks that `extract` makes, in the order in which they are applied.
    pub fn objects_of(&self, extract: &Extract) -> Vec<PlannedObject> {
        let objects = self.objects.iter();
        let needed = objects.filter(|object| extract.touches(&object.blocks));
        needed.cloned().collect()
    }

    /// A checksum of the first `count` objects, each with its name and the checksum of its header. `None` when there are fewer.
    pub fn digest_of(&self, count: usize) -> Option<u32> {
        let mut text = Vec::new();
        for object in self.objects.get(..count)? {
            text.extend(object.name.as_bytes());
            // No name has this byte.
            text.push(0);
            text.extend(object.crc.to_le_bytes());
        }
        Some(crc32c(&text))
    }

    /// How many of the first objects need not be applied when the first `done` objects of `before` were. `before` was a plan
    /// for the same commit, of which objects have been merged or deleted since. If it is none, the store is to be made anew: a
    /// base has only blocks with content, so it does not undo what another base and the ranges after that have written.
    pub fn done_after(&self, before: &Plan, done: usize) -> usize {
        let both = self.objects.iter().zip(&before.objects[..done]);
        both.take_while(|(own, other)| own.is(other)).count()
    }
}

/// The last commit that can be restored, if nothing of the archive names a later one.
fn latest(catalog: &Catalog, restorable: &[Restorable]) -> Result<Lsn, String> {
    let fault = catalog.faults().pop();
    let fault = fault.map(|fault| format!("{fault} (`tonearm history` shows all that is wrong)"));
    let Some(part) = restorable
        .iter()
        .max_by_key(|part| (part.last, part.changed))
    else {
        return Err(fault.unwrap_or("no base is complete".into()));
    };
    let Some(lost) = catalog.lost_after(part.changed) else {
        return Ok(part.last);
    };
    let fault =
        fault.unwrap_or("no base is complete after the commits before them were lost".into());
    Err(format!(
        "the latest state cannot be restored: {lost}, and {fault}. The last state that can be had is that of commit {}: take it \
         with --to-lsn {0}",
        part.last
    ))
}

/// Checks that `ranges` give the state of `lsn`.
///
/// # Errors
/// Why they do not, and which states they give near it.
fn check_exact(ranges: &[&ArchiveHeader], lsn: Lsn) -> Result<(), String> {
    let Some(range) = inexact_at(ranges, lsn) else {
        return Ok(());
    };
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
    Err(format!(
        "commit {lsn} cannot be restored: {why}; restore commit {} or {}",
        exact_before(ranges, lsn),
        exact_after(ranges, lsn)
    ))
}

/// The commit to restore for a time at which `last` was the last durable one. The state may have been merged with later ones,
/// but its commits must be there.
fn at_time(catalog: &Catalog, restorable: &[Restorable], last: Option<Lsn>) -> Result<Lsn, String> {
    let before = last.and_then(|last| catalog.restorable_before(last));
    let (Some(last), Some(before)) = (last, before) else {
        return Err("cannot be restored: nothing that was durable then is kept".into());
    };
    let mut parts = restorable.iter();
    if parts.any(|part| (part.first..=part.changed).contains(&last)) {
        Ok(before)
    } else {
        Err(format!(
            "cannot be restored: it is that of commit {last}, which is missing. The last state before it that can be had is \
             that of commit {before}: take it with --to-lsn {before}"
        ))
    }
}

/// The last commit that was durable at `unix_ms`: the first one that was durable later ends the search, because the clock may
/// have been set back after it. An opening and a base name a commit, too, which may be in no range: the first base may hold
/// all commits before the archive.
async fn last_at(
    bucket: &dyn Bucket,
    catalog: &Catalog,
    unix_ms: u64,
) -> Result<Option<Lsn>, ArchiveError> {
    let (mut last, mut before_ms) = (None, 0);
    for link in catalog.links.values() {
        if last.is_some_and(|last: Lsn| link.last <= last.0) {
            continue;
        }
        // Of a merged one only the last commit is left.
        let may_be_within =
            link.kind == ArchiveKind::Range && (link.unix_ms > unix_ms || link.unix_ms < before_ms);
        if may_be_within {
            let (within, is_end) = last_within(bucket, catalog, link, unix_ms).await?;
            last = within.or(last);
            if is_end {
                break;
            }
        }
        if link.unix_ms > unix_ms {
            break;
        }
        (last, before_ms) = (Some(Lsn(link.last)), link.unix_ms);
    }
    Ok(last)
}

/// The last commit of a range that was durable at `unix_ms`, and whether a later one is in it.
async fn last_within(
    bucket: &dyn Bucket,
    catalog: &Catalog,
    range: &ArchiveHeader,
    unix_ms: u64,
) -> Result<(Option<Lsn>, bool), ArchiveError> {
    let object = PlannedObject::of_chain(range, Lsn(range.last));
    let payload = object.fetch(bucket).await?;
    // Blocks are skipped, so their size must be known.
    let shape = catalog.shape(bucket, range.number).await?;
    let mut reader = ArchiveReader::new(&payload, shape.block_size as usize);
    let (mut commit, mut last) = (None, None);
    while let Some(entry) = reader.next() {
        match entry.map_err(|error| object_error(bucket, &object.name, error))? {
            ArchiveEntry::Commit(lsn) => commit = Some(lsn),
            ArchiveEntry::Time { unix_ms: at } if at <= unix_ms => last = commit.or(last),
            ArchiveEntry::Time { .. } => return Ok((last, true)),
            _ => {}
        }
    }
    Ok((last, false))
}

const NOTHING: &str =
    "nothing can be restored without a base that is complete, and the ranges that it needs";

/// What can be restored, for people.
fn describe(restorable: &[Restorable]) -> String {
    if restorable.is_empty() {
        return NOTHING.into();
    }
    let parts = joined(restorable).into_iter();
    let parts = parts.map(|(first, last)| format!("{} to {}", first.first, last.last));
    format!(
        "commits that can be restored: {}",
        parts.collect::<Vec<_>>().join(", ")
    )
}

/// The times of what can be restored, for people who asked for a time.
fn describe_times(restorable: &[Restorable]) -> String {
    if restorable.is_empty() {
        return NOTHING.into();
    }
    let parts = joined(restorable).into_iter();
    let parts = parts.map(|(first, last)| {
        // A time that is given to the second must have been reached.
        let first_ms = first.first_unix_ms.next_multiple_of(1000);
        format!("{} to {}", utc(first_ms), utc(last.unix_ms.max(first_ms)))
    });
    format!(
        "times that can be restored: {}",
        parts.collect::<Vec<_>>().join(", ")
    )
}

/// What can be restored without a gap: the parts with its first and its last commit.
fn joined(restorable: &[Restorable]) -> Vec<(&Restorable, &Restorable)> {
    let mut parts: Vec<(&Restorable, &Restorable)> = Vec::new();
    for part in restorable {
        match parts.last_mut() {
            Some((_, last)) if part.first <= last.last => {
                if part.last > last.last {
                    *last = part;
                }
            }
            _ => parts.push((part, part)),
        }
    }
    parts
}

/// A time as `--to-time` takes it, in milliseconds since 1970.
fn utc(unix_ms: u64) -> String {
    let (days, seconds) = (unix_ms / 86_400_000, unix_ms / 1000 % 86_400);
    // Days to a date of the proleptic Gregorian calendar (Howard Hinnant, civil_from_days).
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

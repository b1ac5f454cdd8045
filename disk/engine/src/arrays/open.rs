//! Puts an array together from the devices that were found.

use super::keeper::{Keeper, Newest, Sink, Unsaved};
use super::{Kind, StoreArray, name_of, section_of};
use crate::copies::Copies;
use crate::error::EngineError;
use crate::superblocks::MemberDevice;
use async_recursion::async_recursion as boxed;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Section;
use tonearm_device::raid::{Missing, Raid0, Raid5, Raid5Options, Raid5State, Trouble};
use tonearm_format::{
    ARRAY_BYTES, ArrayDescriptor, ArrayLevel, ArrayMissing, FormatError, SUPERBLOCK_SLOTS,
    array_offset, bytes_with_trailer, trailer_offset,
};
use tonearm_rt::{IoError, Rt};

/// A device that may be a member of the array.
pub struct Candidate {
    /// The device.
    pub device: MemberDevice,
    /// Index of the member that should be there; `None` for a device that the caller has named, which must be a member.
    pub expected: Option<usize>,
}

/// What an array is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayAccess {
    /// Nothing is written.
    Read,
    /// Writing. An array that was not closed in order opens only with every member that had data then, and only if none of
    /// them fails before the parity is corrected.
    Write,
    /// Writing, also without such a member. Blocks of that member in stripes that were being written are lost.
    WriteDegraded,
}

/// The descriptor of `member` with the highest generation; `None` when it has none.
///
/// # Errors
/// When the only descriptors are of a later version, or no copy is valid and some cannot be read.
pub async fn load_descriptor(
    pool: &BufPool,
    member: &MemberDevice,
) -> Result<Option<ArrayDescriptor>, EngineError> {
    let found = find_descriptor(pool, member).await?;
    Ok(found.map(|(descriptor, _)| descriptor))
}

/// As [`load_descriptor`], with the slot.
async fn find_descriptor(
    pool: &BufPool,
    member: &MemberDevice,
) -> Result<Option<(ArrayDescriptor, u64)>, EngineError> {
    let (mut copies, mut later, mut unreadable) = (Copies::default(), None::<FormatError>, None);
    let size = member.device.size_bytes();
    for slot in 0..SUPERBLOCK_SLOTS {
        let offset = array_offset(slot, size);
        if offset + ARRAY_BYTES as u64 > size {
            continue;
        }
        match member.device.read(offset, pool.alloc(ARRAY_BYTES)).await {
            Err(error) => unreadable = Some(error),
            Ok(bytes) => match ArrayDescriptor::decode(&bytes) {
                Ok(found) => copies.put(slot, found),
                Err(error @ FormatError::Version { .. }) => later = Some(error),
                _ => {}
            },
        }
    }
    copies.drop_foreign(trailer_offset(size));
    match (copies.into_newest(), later, unreadable) {
        (Some(best), _, _) => Ok(Some(best)),
        (None, Some(cause), _) => Err(EngineError::NotAStore {
            member: member.path.clone(),
            cause,
        }),
        (None, None, Some(error)) => Err(EngineError::ArrayMember {
            member: member.path.clone(),
            error,
        }),
        (None, None, None) => Ok(None),
    }
}

/// What is known of the members while an array is put together.
struct Found {
    descriptor: ArrayDescriptor,
    members: Vec<Option<MemberDevice>>,
    troubles: Vec<Option<Trouble>>,
    newest: Newest,
}

/// Opens the array whose descriptor is on `primary`, with the members among `candidates`, in any order. `absent` says of
/// members by their index why they cannot be opened. A RAID-5 array opens without one member; see [`ArrayAccess`].
///
/// # Errors
/// When too many members are missing or stale, a candidate belongs to another store, or the primary member cannot be
/// written. [`EngineError::ArrayUnclean`] when the array could do without the missing member, but not without loss.
#[boxed(?Send)]
pub async fn open_array(
    rt: &Rt,
    pool: &BufPool,
    primary: &MemberDevice,
    candidates: Vec<Candidate>,
    absent: Vec<(usize, String)>,
    access: ArrayAccess,
) -> Result<StoreArray, EngineError> {
    let descriptor = find_descriptor(pool, primary).await?;
    let (descriptor, slot) = descriptor.ok_or_else(|| EngineError::ArrayDescriptorLost {
        member: primary.path.clone(),
    })?;
    let count = descriptor.members.len();
    let mut found = Found {
        members: (0..count).map(|_| None).collect(),
        troubles: vec![None; count],
        newest: Newest {
            primary: slot,
            members: vec![0; count],
        },
        descriptor,
    };
    for (index, why) in absent {
        found.troubles[index] = Some(Trouble::Missing(why));
    }
    for candidate in candidates {
        found.take(pool, primary, candidate).await?;
    }
    for index in 0..count {
        if found.members[index].is_none() && found.troubles[index].is_none() {
            found.troubles[index] = Some(Trouble::Missing("it was not found".into()));
        }
    }
    found.check_complete()?;
    let level = found.descriptor.level;
    match level {
        ArrayLevel::Raid0 => found.open_raid0(rt, pool, primary, access).await,
        ArrayLevel::Raid5 => found.open_raid5(rt, pool, primary, access).await,
    }
}

/// What a candidate turns out to be.
#[derive(PartialEq, Eq, Debug)]
enum Verdict {
    /// The member with this index. With a trouble it is not used.
    Member(usize, Option<Trouble>),
    /// No member of the array, for this reason.
    NoMember(&'static str),
    /// It must not be where it is: the opening is refused.
    Refused(String),
}

/// What is known of a candidate.
struct Judged<'a> {
    /// Its own descriptor; `None` when it has none.
    own: Option<&'a ArrayDescriptor>,
    /// Its size.
    bytes: u64,
    /// The caller has named it, so it must be a member.
    is_named: bool,
}

impl Judged<'_> {
    /// What it is for an array whose primary member, `primary`, has the descriptor `known`.
    fn verdict(&self, known: &ArrayDescriptor, primary: &str) -> Verdict {
        let Some(own) = self.own else {
            if self.is_named {
                return Verdict::Refused(
                    "is no member of an array; to put it in the place of a missing member, use \
                     `tonearm member replace`"
                        .into(),
                );
            }
            // A new drive in the place of an old one, or a drive that cannot be read.
            return Verdict::NoMember("it has no array descriptor");
        };
        if own.store != known.store || own.array != known.array {
            return Verdict::Refused(format!(
                "is a member of another store than {primary}; name the right file with --member"
            ));
        }
        let index = usize::from(own.own_index.unwrap_or(u16::MAX));
        let identity = own.members.get(index).map(|member| member.uuid);
        let is_member = |at: usize| Some(known.members[at].uuid) == identity;
        let Some(index) = (0..known.members.len()).find(|at| is_member(*at)) else {
            if self.is_named {
                let why = "was replaced and is no member of the array any more";
                return Verdict::Refused(why.into());
            }
            return Verdict::NoMember("it is a member that was replaced");
        };
        let (update, needed) = (known.generation, known.member_bytes());
        if own.generation > update + 1 {
            return Verdict::Refused(format!(
                "is newer than {primary} (update {}, {primary} has {update}): that is an old copy; use the present one",
                own.generation
            ));
        }
        let failed =
            |missing: &ArrayMissing| usize::from(missing.member) == index && !missing.replaced;
        let trouble = if known.missing.as_ref().is_some_and(failed) {
            Some(Trouble::Stale("the array was in use without it".into()))
        } else if own.generation < update {
            Some(Trouble::Stale(format!(
                "the array was in use without it (update {} of {update})",
                own.generation
            )))
        } else if self.bytes < needed {
            let why = format!("it is truncated: it has {} bytes of {needed}", self.bytes);
            Some(Trouble::Missing(why))
        } else {
            None
        };
        Verdict::Member(index, trouble)
    }
}

impl Found {
    /// Finds out which member `candidate` is, and whether its content is that of the array.
    async fn take(
        &mut self,
        pool: &BufPool,
        primary: &MemberDevice,
        candidate: Candidate,
    ) -> Result<(), EngineError> {
        let Candidate { device, expected } = candidate;
        let found = match find_descriptor(pool, &device).await {
            // A drive that the caller has named is not left out in silence.
            Err(EngineError::ArrayMember { error, .. }) if expected.is_some() => {
                self.reject(expected, format!("it cannot be read: {error}"));
                return Ok(());
            }
            found => found?,
        };
        let candidate = Judged {
            own: found.as_ref().map(|(own, _)| own),
            bytes: device.device.size_bytes(),
            is_named: expected.is_none(),
        };
        let wrong = |why: String| EngineError::WrongMember {
            member: device.path.clone(),
            why,
        };
        let (index, trouble) = match candidate.verdict(&self.descriptor, &primary.path) {
            Verdict::Refused(why) => return Err(wrong(why)),
            Verdict::NoMember(why) => {
                self.reject(expected, why.into());
                return Ok(());
            }
            Verdict::Member(index, trouble) => (index, trouble),
        };
        match (&self.members[index], trouble) {
            // An old copy beside the member itself.
            (Some(_), Some(_)) => {}
            (Some(other), None) => {
                return Err(wrong(format!(
                    "is member {index} of the array, and so is {}: one is a copy of the other; move the copy away",
                    other.path
                )));
            }
            (None, None) => {
                self.members[index] = Some(device);
                self.troubles[index] = None;
                self.newest.members[index] = found.map_or(0, |(_, slot)| slot);
            }
            (None, trouble) => self.troubles[index] = trouble,
        }
        Ok(())
    }

    /// A device where a member should be is not used.
    fn reject(&mut self, expected: Option<usize>, why: String) {
        if let Some(index) = expected.filter(|index| self.members[*index].is_none()) {
            self.troubles[index] = Some(Trouble::Missing(why));
        }
    }

    /// Refuses an array that lacks more members than it can do without. A replacement that is not rebuilt counts as
    /// lacking.
    fn check_complete(&self) -> Result<(), EngineError> {
        let rebuilding = self
            .descriptor
            .missing
            .map(|missing| usize::from(missing.member));
        let lacks = |index: &usize| self.troubles[*index].is_some() || rebuilding == Some(*index);
        let lacking: Vec<usize> = (0..self.members.len()).filter(lacks).collect();
        if lacking.len() <= self.descriptor.level.spare_members() {
            return Ok(());
        }
        let text = |index: &usize| {
            let path = &self.descriptor.members[*index].path;
            match &self.troubles[*index] {
                Some(trouble) => format!("{path}: {trouble}"),
                None => format!("{path}: it is not rebuilt"),
            }
        };
        let lacking: Vec<String> = lacking.iter().map(text).collect();
        Err(EngineError::ArrayIncomplete {
            array: name_of(&self.descriptor),
            lacking: lacking.join("; "),
        })
    }

    /// Refuses an array that was not closed in order and lacks a member that had data then. Stripes that were being
    /// written may have parity that does not match their data. As long as all members are there, recovery corrects the
    /// parity from the data. Without the member, its blocks in these stripes cannot be computed, and it would be stale
    /// from the first save on. A member that the state names as missing is no such member: parity records protect its
    /// blocks. Neither is a replacement without restored stripes.
    fn check_closed_or_whole(&self) -> Result<(), EngineError> {
        let had_data = |index: &usize| match self.descriptor.missing {
            Some(missing) if usize::from(missing.member) == *index => missing.rebuilt_rows > 0,
            _ => true,
        };
        let away = |index: &usize| self.members[*index].is_none();
        let lacking = (0..self.members.len()).find(|index| away(index) && had_data(index));
        match lacking {
            Some(index) if !self.descriptor.clean => {
                let why = self.troubles[index].clone();
                Err(self.unclean_without(index, why))
            }
            _ => Ok(()),
        }
    }

    fn unclean_without(&self, index: usize, why: Option<Trouble>) -> EngineError {
        EngineError::ArrayUnclean {
            index,
            member: self.descriptor.members[index].path.clone(),
            why: why.map_or(String::new(), |why| why.to_string()),
        }
    }

    fn keeper(&self, rt: &Rt, pool: &BufPool, primary: &MemberDevice) -> Keeper {
        Keeper::new(
            rt,
            pool,
            primary.clone(),
            self.descriptor.clone(),
            self.members.clone(),
            self.troubles.clone(),
            self.newest.clone(),
        )
    }

    async fn open_raid0(
        self,
        rt: &Rt,
        pool: &BufPool,
        primary: &MemberDevice,
        access: ArrayAccess,
    ) -> Result<StoreArray, EngineError> {
        let keeper = self.keeper(rt, pool, primary);
        let end = self.descriptor.stripes_end();
        let devices = self.members.iter().flatten();
        let devices = devices.map(|member| section_of(member, end)).collect();
        let unit = u64::from(self.descriptor.stripe_bytes);
        let array = Raid0::new(pool, &name_of(&self.descriptor), devices, unit)?;
        if access != ArrayAccess::Read {
            let open = ArrayDescriptor {
                clean: false,
                ..self.descriptor.clone()
            };
            keeper.save_on_all(open).await?;
        }
        Ok(StoreArray::new(Kind::Raid0(array), Rc::new(keeper), access))
    }

    async fn open_raid5(
        mut self,
        rt: &Rt,
        pool: &BufPool,
        primary: &MemberDevice,
        access: ArrayAccess,
    ) -> Result<StoreArray, EngineError> {
        let keeper = Rc::new(self.keeper(rt, pool, primary));
        // Every opening is saved on the members, so that one that is away meanwhile is known by its generation.
        if access == ArrayAccess::Write && !self.descriptor.clean {
            self.check_closed_or_whole()?;
            self.note_missing();
            let saved = keeper.save_on_all(self.descriptor.clone()).await;
            saved.map_err(|unsaved| match unsaved.member {
                Some(index) => self.unclean_without(index, Some(unwritable(unsaved.error))),
                None => unsaved.into(),
            })?;
        } else if access != ArrayAccess::Read {
            loop {
                self.note_missing();
                let present: Vec<bool> = self.members.iter().map(Option::is_some).collect();
                let saved = keeper.save(self.descriptor.clone(), &present).await;
                let unsaved = saved?;
                if unsaved.is_empty() {
                    break;
                }
                for (index, error) in unsaved {
                    let why = unwritable(error);
                    keeper.drop_member(index, why.clone());
                    (self.members[index], self.troubles[index]) = (None, Some(why));
                }
                self.check_complete()?;
            }
        }
        self.note_missing();
        let descriptor = &self.descriptor;
        let end = descriptor.stripes_end();
        let section = |member: &Option<MemberDevice>| Some(section_of(member.as_ref()?, end));
        let devices: Vec<_> = self.members.iter().map(section).collect();
        let records =
            descriptor.records_offset..descriptor.records_offset + descriptor.records_bytes;
        let (found, needed) = (primary.device.size_bytes(), bytes_with_trailer(records.end));
        if found < needed {
            return Err(EngineError::Truncated {
                member: primary.path.clone(),
                found,
                needed,
            });
        }
        let options = Raid5Options {
            name: name_of(descriptor),
            id: descriptor.array,
            unit: u64::from(descriptor.stripe_bytes),
            records: Some(Rc::new(Section::new(primary.device.clone(), records))),
            read_only: access == ArrayAccess::Read,
            record_always: false,
            accept_loss: access == ArrayAccess::WriteDegraded,
        };
        let missing = descriptor.missing.map(|missing| Missing {
            member: usize::from(missing.member),
            rebuilt_rows: missing.rebuilt_rows,
        });
        let state = Raid5State {
            clean: descriptor.clean,
            missing,
        };
        let sink = Rc::new(Sink(keeper.clone()));
        let array = Raid5::open(rt, pool, devices.clone(), options, state, sink).await?;
        if let Some(missing) = missing.filter(|missing| missing.rebuilt_rows == 0)
            && let Some(replacement) = &devices[missing.member]
        {
            array.replace(replacement.clone())?;
        }
        Ok(StoreArray::new(Kind::Raid5(array), keeper, access))
    }

    /// The state names the member that is not there.
    fn note_missing(&mut self) {
        if let Some(index) = self.members.iter().position(Option::is_none) {
            self.descriptor.missing = Some(ArrayMissing {
                member: index as u16,
                replaced: false,
                rebuilt_rows: 0,
            });
        }
    }
}

fn unwritable(error: IoError) -> Trouble {
    Trouble::Missing(format!("its header area cannot be written: {error}"))
}

impl From<Unsaved> for EngineError {
    fn from(unsaved: Unsaved) -> Self {
        Self::ArrayState {
            member: unsaved.device,
            error: unsaved.error,
        }
    }
}

#[cfg(test)]
#[path = "open_test.rs"]
mod open_test;

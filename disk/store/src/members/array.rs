//! Opening the members of an array.

use super::{Access, Members, Opened, Opener};
use crate::error::StoreError;
use crate::place::store_folder;
use rustix::io::Errno;
use std::path::Path;
use tonearm_engine::{
    ArrayAccess, Candidate, EngineError, MemberDevice, MemberSuperblock, load_descriptor,
    load_superblock, open_array,
};
use tonearm_format::{ArrayDescriptor, ArrayMember};
use tonearm_uring::MemberError;

/// What was found where members of an array should be.
#[derive(Default)]
struct Search {
    /// Open devices, each with the index of the member that should be there; `None` for those that the caller has named.
    found: Vec<(MemberDevice, Option<usize>)>,
    /// Members that are not there, and why.
    absent: Vec<(usize, String)>,
    /// Members that could not be opened although nothing is wrong with them.
    refused: Vec<(usize, StoreError)>,
}

impl Opener<'_> {
    /// Opens the store whose home blocks are on an array. `primary` has its log.
    pub(super) fn open_array(
        &self,
        path: &Path,
        primary: MemberDevice,
        superblock: MemberSuperblock,
        places: &Members,
    ) -> Result<Opened, StoreError> {
        let (rt, pool) = (self.executor.rt.clone(), self.executor.pool.clone());
        let (own, of) = (pool.clone(), primary.clone());
        let descriptor = self
            .executor
            .rt
            .block_on(async move { load_descriptor(&own, &of).await })?;
        let members = descriptor
            .as_ref()
            .map_or(&[][..], |descriptor| &descriptor.members);
        let mut search = self.search(path, members, places)?;
        if let Some(descriptor) = &descriptor {
            self.find_renamed(descriptor, &mut search)?;
        }
        let Search {
            found,
            absent,
            refused,
        } = search;
        if let Some((index, cause)) = refused.into_iter().next() {
            return Err(StoreError::MemberLost {
                path: path.to_path_buf(),
                index: index + 1,
                cause: Box::new(cause),
            });
        }
        let candidates = found.iter().map(|(device, expected)| Candidate {
            device: device.clone(),
            expected: *expected,
        });
        let candidates = candidates.collect();
        let access = match (self.access, places.degraded) {
            (Access::Write, false) => ArrayAccess::Write,
            (Access::Write, true) => ArrayAccess::WriteDegraded,
            (Access::Read | Access::Peek, _) => ArrayAccess::Read,
        };
        let log = primary.clone();
        let (array, member, inside) = self.executor.rt.block_on(async move {
            let array = open_array(&rt, &pool, &log, candidates, absent, access).await?;
            // A drive that is not used, such as a stale member, is free for other uses, also as a replacement.
            for (device, _) in found {
                if !array.uses(&device) {
                    device.device.release();
                }
            }
            let member = array.member();
            let inside = load_superblock(&pool, &member).await?;
            Ok::<_, EngineError>((array, member, inside))
        })?;
        Ok(Opened {
            devices: vec![primary, member],
            superblocks: vec![superblock, inside],
            array: Some(array),
        })
    }

    /// Looks where the caller and the descriptor say that the members are.
    fn search(
        &self,
        path: &Path,
        members: &[ArrayMember],
        places: &Members,
    ) -> Result<Search, StoreError> {
        let (mut search, mut seen) = (Search::default(), Vec::new());
        for place in &places.moved {
            seen.extend(place.canonicalize().ok());
            search.found.push((self.open_member(place)?, None));
        }
        let folder = store_folder(path);
        for (index, member) in members.iter().enumerate() {
            let place = folder.join(&member.path);
            // A file that --member names may lie where another member was.
            if place
                .canonicalize()
                .is_ok_and(|place| seen.contains(&place))
            {
                continue;
            }
            match self.open_member(&place) {
                Ok(device) => search.found.push((device, Some(index))),
                Err(StoreError::Member(MemberError::NotFound { .. })) => {
                    search.absent.push((index, "it does not exist".into()));
                }
                Err(StoreError::Member(MemberError::Io { source, .. })) if is_of_drive(&source) => {
                    search
                        .absent
                        .push((index, format!("it cannot be opened: {source}")));
                }
                // In use, no permission, or this process lacks something: nothing is wrong with the member.
                Err(cause) => search.refused.push((index, cause)),
            }
        }
        Ok(search)
    }

    /// Looks for members of the array under other names than the recorded ones, if those lead to none. An array that opened
    /// without such a member would make it stale.
    fn find_renamed(&self, array: &ArrayDescriptor, search: &mut Search) -> Result<(), StoreError> {
        let own = |found: &(MemberDevice, _)| self.index_in_array(array, &found.0);
        let there: Vec<Option<usize>> = search.found.iter().map(own).collect();
        for index in (0..array.members.len()).filter(|index| !there.contains(&Some(*index))) {
            // The array was in use without it: it is stale wherever it is.
            if array
                .missing
                .is_some_and(|missing| usize::from(missing.member) == index && !missing.replaced)
            {
                continue;
            }
            let is_it = |peek: &Opener<'_>, device: &MemberDevice| {
                (peek.index_in_array(array, device) == Some(index)).then_some(())
            };
            if let Some((device, ())) = self.find_device(is_it)? {
                let found = &mut search.found;
                search.absent.retain(|(at, _)| *at != index);
                search.refused.retain(|(at, _)| *at != index);
                // What has its name now is no member.
                let mut named = found.iter().zip(&there);
                match named.position(|((_, at), own)| own.is_none() && *at == Some(index)) {
                    Some(other) => {
                        let other = std::mem::replace(&mut found[other].0, device);
                        other.device.release();
                    }
                    None => found.push((device, Some(index))),
                }
            }
        }
        Ok(())
    }

    /// Which member of `array` is on `device`.
    fn index_in_array(&self, array: &ArrayDescriptor, device: &MemberDevice) -> Option<usize> {
        let (pool, device) = (self.executor.pool.clone(), device.clone());
        let loading = async move { load_descriptor(&pool, &device).await };
        let own = self.executor.rt.block_on(loading).ok()??;
        let uuid = own.members.get(usize::from(own.own_index?))?.uuid;
        let is_of_array = (own.store, own.array) == (array.store, array.array);
        let mut members = array.members.iter();
        members.position(|member| is_of_array && member.uuid == uuid)
    }
}

/// True for an error of the drive or its place. Other errors, such as too many open files, say nothing about the drive.
/// An array that counted it as missing for them would make it stale.
fn is_of_drive(error: &std::io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::IO
                | Errno::NODATA
                | Errno::NODEV
                | Errno::NOENT
                | Errno::NOLINK
                | Errno::NOMEDIUM
                | Errno::NOTDIR
                | Errno::NXIO
                | Errno::REMOTEIO
                | Errno::STALE
                | Errno::TIMEDOUT
        )
    )
}

#[cfg(test)]
#[path = "array_test.rs"]
mod array_test;

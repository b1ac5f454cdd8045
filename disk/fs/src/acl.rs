//! POSIX access control lists (acl(5); IEEE 1003.1e draft 17). They are extended attributes in the form of the kernel
//! (linux/posix_acl_xattr.h), which checks them at each access. The permissions of a file's mode are part of its list: a change of
//! one changes the other, in the same unit.

use crate::attrs::SetAttr;
use crate::error::FsError;
use crate::fs::{Attr, DIRECTORY, Fs, SYMLINK, TYPE};
use crate::meta::{Meta, Stop};
use tonearm_format::{Inode, Xattr};

/// Name of the list that says who may use a file.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the list that new files of a directory get.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// Version of the attribute's form.
const VERSION: u32 = 2;
/// Bytes of an entry: tag, permissions, and the number of a user or group.
const ENTRY_BYTES: usize = 8;
/// Permissions of a mode, and of an entry.
const PERMISSIONS: u32 = 0o777;
const ALL: u16 = 0o7;
/// In a mode.
const SET_GID: u32 = 0o2000;

/// Tags, in the order of the entries.
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

/// A list that is complete and in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Acl(Vec<Entry>);

impl Acl {
    /// The list in an attribute; `None` for one without entries.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, FsError> {
        let invalid = FsError::Invalid("this is no access control list");
        let (Some((version, rest)), true) = (
            bytes.split_first_chunk::<4>(),
            bytes.len() % ENTRY_BYTES == 4,
        ) else {
            return Err(invalid);
        };
        if u32::from_le_bytes(*version) != VERSION {
            return Err(invalid);
        }
        let (entries, _) = rest.as_chunks::<ENTRY_BYTES>();
        let entry = |[t0, t1, p0, p1, id @ ..]: &[u8; ENTRY_BYTES]| Entry {
            tag: u16::from_le_bytes([*t0, *t1]),
            permissions: u16::from_le_bytes([*p0, *p1]),
            id: u32::from_le_bytes(*id),
        };
        let acl = Self(entries.iter().map(entry).collect());
        match (acl.0.is_empty(), acl.is_complete()) {
            (true, _) => Ok(None),
            (false, true) => Ok(Some(acl)),
            (false, false) => Err(invalid),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let entries = self.0.iter().flat_map(|entry| {
            let [t0, t1] = entry.tag.to_le_bytes();
            let [p0, p1] = entry.permissions.to_le_bytes();
            let [a, b, c, d] = entry.id.to_le_bytes();
            [t0, t1, p0, p1, a, b, c, d]
        });
        VERSION.to_le_bytes().into_iter().chain(entries).collect()
    }

    /// It has each of the owner, the owning group and the others once, and a mask if it names users or groups. The entries are in
    /// the order of their tags.
    fn is_complete(&self) -> bool {
        let count = |tag| self.0.iter().filter(|entry| entry.tag == tag).count();
        let has_names = count(USER) + count(GROUP) > 0;
        let once = [USER_OBJ, GROUP_OBJ, OTHER];
        self.0.is_sorted_by_key(|entry| entry.tag)
            && self.0.iter().all(|entry| {
                [USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER].contains(&entry.tag)
                    && entry.permissions <= ALL
            })
            && once.into_iter().all(|tag| count(tag) == 1)
            && (count(MASK) == 1 || count(MASK) == 0 && !has_names)
    }

    /// It says no more than a mode.
    pub fn is_minimal(&self) -> bool {
        self.0.len() == 3
    }

    fn entry(&mut self, tag: u16) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.tag == tag)
    }

    /// The entries that the three digits of a mode stand for: those of the group are the mask, if there is one.
    fn digits(&mut self) -> [(u32, &mut u16); 3] {
        let group = match self.entry(MASK).is_some() {
            true => MASK,
            false => GROUP_OBJ,
        };
        let mut found = [None, None, None];
        for entry in &mut self.0 {
            match entry.tag {
                USER_OBJ => found[0] = Some(&mut entry.permissions),
                tag if tag == group => found[1] = Some(&mut entry.permissions),
                OTHER => found[2] = Some(&mut entry.permissions),
                _ => {}
            }
        }
        let [user, group, other] = found.map(|entry| entry.expect("the list is complete"));
        [(6, user), (3, group), (0, other)]
    }

    /// The permissions of the mode that goes with it.
    pub fn permissions(&mut self) -> u32 {
        let digits = self.digits();
        digits
            .into_iter()
            .map(|(shift, digit)| u32::from(*digit) << shift)
            .sum()
    }

    /// Takes the permissions of a new mode.
    pub fn set_permissions(&mut self, mode: u32) {
        for (shift, digit) in self.digits() {
            *digit = (mode >> shift) as u16 & ALL;
        }
    }

    /// Keeps the permissions that a new file's mode has, too.
    pub fn limit(&mut self, mode: u32) {
        for (shift, digit) in self.digits() {
            *digit &= (mode >> shift) as u16 & ALL;
        }
    }
}

impl Meta<'_, '_> {
    fn acl(&mut self, ino: u64, name: &[u8]) -> Result<Option<Acl>, Stop> {
        match self.xattr(ino, name)? {
            Ok((_, xattr)) => Ok(Acl::decode(&xattr.value)?),
            Err(_) => Ok(None),
        }
    }

    fn put_acl(&mut self, ino: u64, name: &[u8], acl: Option<&Acl>) -> Result<(), Stop> {
        match (self.xattr(ino, name)?, acl) {
            (Ok((key, _)), None) => self.remove(key).map(drop),
            (Err(_), None) => Ok(()),
            (Ok((key, _)) | Err(key), Some(acl)) => {
                let (name, value) = (name.to_vec(), acl.encode());
                self.put(key, &Xattr { name, value }.encode())
            }
        }
    }

    /// The list of a file takes the permissions of its new mode.
    pub(crate) fn keep_acl(&mut self, ino: u64, set: &SetAttr) -> Result<(), Stop> {
        let Some(mode) = set.mode else { return Ok(()) };
        let Some(mut acl) = self.acl(ino, ACL_ACCESS)? else {
            return Ok(());
        };
        acl.set_permissions(mode);
        self.put_acl(ino, ACL_ACCESS, Some(&acl))
    }

    /// A new file gets the default list of its directory; without one, its mode loses the bits of `umask`.
    pub(crate) fn inherit_acl(
        &mut self,
        dir: u64,
        (ino, inode): (u64, &mut Inode),
        umask: u32,
    ) -> Result<(), Stop> {
        let kind = inode.mode & TYPE;
        if kind == SYMLINK {
            return Ok(());
        }
        let Some(default) = self.acl(dir, ACL_DEFAULT)? else {
            inode.mode &= !(umask & PERMISSIONS);
            return Ok(());
        };
        let mut own = default.clone();
        own.limit(inode.mode);
        inode.mode = inode.mode & !PERMISSIONS | own.permissions();
        if !own.is_minimal() {
            self.put_acl(ino, ACL_ACCESS, Some(&own))?;
        }
        if kind == DIRECTORY {
            self.put_acl(ino, ACL_DEFAULT, Some(&default))?;
        }
        Ok(())
    }
}

impl Fs {
    /// Sets the list `name` of a file, [`ACL_ACCESS`] or [`ACL_DEFAULT`], from an attribute. The permissions of the mode follow the
    /// access list, which is kept only if it says more than these. Without entries, or with `value` as `None`, the list is
    /// removed. The set-group-ID bit stays only if `keeps_set_gid`.
    ///
    /// # Errors
    /// When it is no such list, too large, the default list of something else than a directory, or the store is full.
    pub async fn set_acl(
        &self,
        ino: u64,
        name: &'static [u8],
        value: Option<&[u8]>,
        keeps_set_gid: bool,
    ) -> Result<Attr, FsError> {
        let acl = value.map(Acl::decode).transpose()?.flatten();
        if name.len() + value.map_or(0, <[u8]>::len) > self.xattr_max() {
            return Err(FsError::AttributeTooLarge(self.xattr_max()));
        }
        let now = self.now();
        let (attr, _) = self
            .change(move |meta| {
                let mut inode = meta.inode(ino)?;
                let mut acl = acl.clone();
                let kind = inode.mode & TYPE;
                if kind == SYMLINK || name == ACL_DEFAULT && acl.is_some() && kind != DIRECTORY {
                    return Err(FsError::Invalid("this file has no such list").into());
                }
                if name == ACL_ACCESS
                    && let Some(acl) = &mut acl
                {
                    inode.mode = inode.mode & !PERMISSIONS | acl.permissions();
                    if !keeps_set_gid {
                        inode.mode &= !SET_GID;
                    }
                }
                let kept = acl.filter(|acl| name == ACL_DEFAULT || !acl.is_minimal());
                meta.put_acl(ino, name, kept.as_ref())?;
                inode.ctime = now;
                meta.put_inode(ino, &inode)?;
                Ok(Attr { ino, inode })
            })
            .await?;
        Ok(attr)
    }
}

#[cfg(test)]
#[path = "acl_test.rs"]
mod acl_test;

//! POSIX access control lists of files. The kernel checks them at each access. The permissions of a file's mode are part of its
//! list: a change of one changes the other, in the same unit.

use crate::attrs::SetAttr;
use crate::error::FsError;
use crate::fs::Fs;
use crate::meta::{Meta, damage_of};
use crate::refusal::Stop;
use crate::types::{DIRECTORY, SET_GID, SYMLINK, TYPE};
use async_recursion::async_recursion as boxed;
use tonearm_format::{Acl, Inode, Xattr};

/// Name of the attribute with the list that decides who may use a file.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// Name of the attribute with the list that new files of a directory get.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// The permissions of a mode.
const PERMISSIONS: u32 = 0o777;

impl Meta<'_, '_> {
    fn acl(&mut self, ino: u64, name: &[u8]) -> Result<Option<Acl>, Stop> {
        match self.xattr(ino, name)? {
            Ok((_, xattr)) => Ok(Acl::decode(&xattr.value).map_err(damage_of(ino))?),
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
        let Some(acl) = self.acl(ino, ACL_ACCESS)? else {
            return Ok(());
        };
        self.put_acl(ino, ACL_ACCESS, Some(&acl.with_permissions(mode)))
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
        inode.mode &= default.permissions() | !PERMISSIONS;
        let own = default.clone().with_permissions(inode.mode);
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
    #[boxed(?Send)]
    pub async fn set_acl(
        &self,
        ino: u64,
        name: &'static [u8],
        value: Option<&[u8]>,
        keeps_set_gid: bool,
    ) -> Result<(), FsError> {
        let decoded = value.map(Acl::decode).transpose();
        let acl = decoded.map_err(|_| FsError::Invalid("this is no access control list"))?;
        let acl = acl.flatten();
        if name.len() + value.map_or(0, <[u8]>::len) > self.xattr_max() {
            return Err(FsError::AttributeTooLarge(self.xattr_max()));
        }
        let now = self.now();
        self.change(move |meta| {
            let mut inode = meta.inode(ino)?;
            let kind = inode.mode & TYPE;
            if kind == SYMLINK || name == ACL_DEFAULT && acl.is_some() && kind != DIRECTORY {
                return Err(FsError::Invalid("this file has no such list").into());
            }
            let is_access = name == ACL_ACCESS;
            if let Some(acl) = acl.as_ref().filter(|_| is_access) {
                inode.mode = inode.mode & !PERMISSIONS | acl.permissions();
                if !keeps_set_gid {
                    inode.mode &= !SET_GID;
                }
            }
            let kept = acl.as_ref().filter(|acl| !is_access || !acl.is_minimal());
            meta.put_acl(ino, name, kept)?;
            inode.ctime = now;
            meta.put_inode(ino, &inode)
        })
        .await?;
        Ok(())
    }
}

/// What is wrong with an attribute of a file of this mode, if it is an access control list.
pub(crate) fn fault(xattr: &Xattr, mode: u32) -> Option<&'static str> {
    let is_access = xattr.name == ACL_ACCESS;
    if !is_access && xattr.name != ACL_DEFAULT {
        return None;
    }
    match Acl::decode(&xattr.value) {
        Ok(Some(acl)) if is_access && acl.permissions() != mode & PERMISSIONS => {
            Some("an access control list with other permissions than its mode")
        }
        Ok(Some(_)) if !is_access && mode & TYPE != DIRECTORY => {
            Some("a default access control list and is no directory")
        }
        Ok(Some(_)) => None,
        Ok(None) | Err(_) => Some("a damaged access control list"),
    }
}

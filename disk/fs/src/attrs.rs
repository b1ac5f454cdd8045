//! Attributes and extended attributes.

use crate::error::FsError;
use crate::fs::Fs;
use crate::meta::{Meta, damage_of};
use crate::refusal::Stop;
use crate::tree::{Key, max_value};
use crate::types::{Attr, DIRECTORY, REGULAR, TYPE, XATTR_NAMES_MAX, XATTRS_MAX};
use async_recursion::async_recursion as boxed;
use tonearm_format::{Time, Xattr, item};

/// New attributes; what is `None` stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// Permissions; the type stays.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes of a regular file. What is cut off is gone; what is added reads as zeroes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<Time>,
    /// Last change of the content.
    pub mtime: Option<Time>,
    /// Last change of the inode; otherwise it is the time of this operation.
    pub ctime: Option<Time>,
}

/// What [`Fs::set_xattr`] does when there is one of this name, and when there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SetXattr {
    /// Replaces it, or makes it.
    #[default]
    Any,
    /// Fails when there is one.
    Create,
    /// Fails when there is none.
    Replace,
}

impl SetAttr {
    /// Changes an inode, but for its size.
    pub(crate) fn apply(&self, inode: &mut tonearm_format::Inode, now: Time) {
        if let Some(mode) = self.mode {
            inode.mode = inode.mode & TYPE | mode & !TYPE;
        }
        inode.uid = self.uid.unwrap_or(inode.uid);
        inode.gid = self.gid.unwrap_or(inode.gid);
        inode.atime = self.atime.unwrap_or(inode.atime);
        if self.size.is_some() {
            inode.mtime = now;
        }
        inode.mtime = self.mtime.unwrap_or(inode.mtime);
        inode.ctime = self.ctime.unwrap_or(now);
    }
}

impl Fs {
    /// The attributes of a file.
    ///
    /// # Errors
    /// When there is none.
    #[boxed(?Send)]
    pub async fn attr(&self, ino: u64) -> Result<Attr, FsError> {
        let inode = self.look(|meta| meta.inode(ino)).await?;
        Ok(Attr { ino, inode })
    }

    /// Changes attributes, all at once.
    ///
    /// # Errors
    /// When there is no such file, a size is for something else than a regular file, or the store is full.
    #[boxed(?Send)]
    pub async fn set_attr(&self, ino: u64, set: SetAttr) -> Result<Attr, FsError> {
        if let Some(size) = set.size {
            return self.set_size(ino, size, set).await;
        }
        let now = self.now();
        let (attr, _) = self
            .change(move |meta| {
                let mut inode = meta.inode(ino)?;
                set.apply(&mut inode, now);
                meta.keep_acl(ino, &set)?;
                meta.put_inode(ino, &inode)?;
                Ok(Attr { ino, inode })
            })
            .await?;
        Ok(attr)
    }

    /// Most bytes of an extended attribute, name and value together.
    pub fn xattr_max(&self) -> usize {
        max_value(self.block() as usize) - 1
    }

    /// An extended attribute.
    ///
    /// # Errors
    /// When there is none of this name.
    #[boxed(?Send)]
    pub async fn xattr(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.look(|meta| {
            meta.inode(ino)?;
            match meta.xattr(ino, name)? {
                Ok((_, xattr)) => Ok(xattr.value),
                Err(_) => Err(FsError::NoAttribute.into()),
            }
        })
        .await
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// When it is too large, `how` does not allow it, or the store is full.
    #[boxed(?Send)]
    pub async fn set_xattr(
        &self,
        ino: u64,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<(), FsError> {
        if name.is_empty() || name.len() > 255 || name.contains(&0) {
            return Err(FsError::Invalid(
                "the name of an extended attribute has 1 to 255 bytes, none of them zero",
            ));
        }
        if name.len() + value.len() > self.xattr_max() {
            return Err(FsError::AttributeTooLarge(self.xattr_max()));
        }
        let (name, value, now) = (name.to_vec(), value.to_vec(), self.now());
        self.change(move |meta| {
            let mut inode = meta.inode(ino)?;
            let key = match (meta.xattr(ino, &name)?, how) {
                (Ok(_), SetXattr::Create) => return Err(FsError::Exists.into()),
                (Err(_), SetXattr::Replace) => return Err(FsError::NoAttribute.into()),
                (Ok((key, _)), _) => key,
                (Err(key), _) => {
                    meta.check_xattrs(ino, name.len())?;
                    key
                }
            };
            let (name, value) = (name.clone(), value.clone());
            meta.put(key, &Xattr { name, value }.encode())?;
            inode.ctime = now;
            meta.put_inode(ino, &inode)
        })
        .await?;
        Ok(())
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// When there is none of this name.
    #[boxed(?Send)]
    pub async fn remove_xattr(&self, ino: u64, name: &[u8]) -> Result<(), FsError> {
        let (name, now) = (name.to_vec(), self.now());
        let fs = self.freeing();
        fs.change(move |meta| {
            let mut inode = meta.inode(ino)?;
            let found = meta.xattr(ino, &name)?;
            let (key, _) = found.map_err(|_| FsError::NoAttribute)?;
            meta.remove(key)?;
            inode.ctime = now;
            meta.put_inode(ino, &inode)
        })
        .await?;
        Ok(())
    }

    /// The names of the extended attributes of a file.
    ///
    /// # Errors
    /// When there is no such file.
    #[boxed(?Send)]
    pub async fn xattrs(&self, ino: u64) -> Result<Vec<Vec<u8>>, FsError> {
        let (mut names, mut from) = (Vec::new(), Some(0));
        self.look(|meta| meta.inode(ino)).await?;
        // In steps, for a file that has more than it may have by now.
        while let Some(first) = from {
            let found = self.look(|meta| meta.xattr_names(ino, first, XATTRS_MAX));
            let (some, next) = found.await?;
            names.extend(some);
            from = next;
        }
        Ok(names)
    }
}

impl Meta<'_, '_> {
    /// Up to `most` names of the extended attributes of a file from a place on, and the place where the rest begins.
    fn xattr_names(
        &mut self,
        ino: u64,
        at: u64,
        most: usize,
    ) -> Result<(Vec<Vec<u8>>, Option<u64>), Stop> {
        let (mut names, mut failed, mut rest) = (Vec::new(), None, None);
        let kind = item::XATTR;
        self.scan(Key { ino, kind, at }, |key, value| {
            if (key.ino, key.kind) != (ino, kind) {
                return false;
            }
            if names.len() == most {
                rest = Some(key.at);
                return false;
            }
            match Xattr::decode(value) {
                Ok(xattr) => names.push(xattr.name),
                Err(error) => failed = Some(damage_of(ino)(error)),
            }
            failed.is_none()
        })?;
        failed.map_or(Ok((names, rest)), |error| Err(error.into()))
    }

    /// Checks that a file may have one extended attribute more, with a name of `len` bytes.
    fn check_xattrs(&mut self, ino: u64, len: usize) -> Result<(), Stop> {
        let (names, _) = self.xattr_names(ino, 0, XATTRS_MAX)?;
        let bytes: usize = names.iter().map(|name| name.len() + 1).sum();
        if names.len() < XATTRS_MAX && bytes + len < XATTR_NAMES_MAX {
            Ok(())
        } else {
            Err(FsError::TooManyAttributes.into())
        }
    }
}

/// Checks that a file has content.
pub(crate) fn check_regular(mode: u32) -> Result<(), FsError> {
    match mode & TYPE {
        REGULAR => Ok(()),
        DIRECTORY => Err(FsError::IsDirectory),
        _ => Err(FsError::Invalid("only a regular file has content")),
    }
}

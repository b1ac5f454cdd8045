//! Paths within the file system, as sessions name files: `app.db` and `/app.db` are one file of the root directory.

use crate::error::FsError;
use crate::fs::Fs;
use crate::types::{Attr, SYMLINK, TYPE};
use async_recursion::async_recursion as boxed;
use tonearm_format::ROOT_INO;

/// Longest path in bytes, as kernels have it.
const PATH_MAX: usize = 4096;

impl Fs {
    /// What is at `path`, from the root directory on: a file, a directory, or a symbolic link, which is not followed.
    ///
    /// # Errors
    /// When there is nothing, or a part of the path before the last one is a symbolic link: what it leads to depends on where the
    /// file system is mounted.
    #[boxed(?Send)]
    pub async fn at(&self, path: &[u8]) -> Result<Attr, FsError> {
        self.walk(parts(path)?, true).await
    }

    /// The directory that has, or would have, the last name of `path`, and that name.
    ///
    /// # Errors
    /// As for [`Fs::at`], and when the path has no name.
    #[boxed(?Send)]
    pub async fn above<'a>(&self, path: &'a [u8]) -> Result<(u64, &'a [u8]), FsError> {
        let mut parts = parts(path)?;
        let name = parts.pop().ok_or(FsError::IsDirectory)?;
        Ok((self.walk(parts, false).await?.ino, name))
    }

    /// Walks along `parts`, of which the last one may be a symbolic link if `link_at_end`.
    async fn walk(&self, parts: Vec<&[u8]>, link_at_end: bool) -> Result<Attr, FsError> {
        self.look(|meta| {
            let mut ino = ROOT_INO;
            let mut inode = meta.inode(ino)?;
            for (done, name) in (1..).zip(&parts) {
                ino = meta.look_up(ino, name)?;
                inode = meta.named_inode(ino)?;
                let may_be_link = link_at_end && done == parts.len();
                if inode.mode & TYPE == SYMLINK && !may_be_link {
                    return Err(FsError::Invalid(
                        "it is a symbolic link, which only the mount follows",
                    )
                    .into());
                }
            }
            Ok(Attr { ino, inode })
        })
        .await
    }
}

fn parts(path: &[u8]) -> Result<Vec<&[u8]>, FsError> {
    if path.len() > PATH_MAX {
        return Err(FsError::NameTooLong);
    }
    let parts = path.split(|byte| *byte == b'/');
    Ok(parts
        .filter(|part| !part.is_empty() && *part != b".")
        .collect())
}

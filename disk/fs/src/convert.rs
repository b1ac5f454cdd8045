//! Files of stores that earlier versions have made: each was a volume of its own, in the volume table. They are moved into the
//! tree before it is used for writing.
//!
//! The content is copied into a file without a name. One unit then gives it the name and deletes the volume. So a file is in one
//! of both places at each moment, and the next opening frees a copy that was not completed and begins it again.

use crate::attrs::SetAttr;
use crate::data::COPY_BYTES;
use crate::error::FsError;
use crate::fs::{DIRECTORY, Fs, REGULAR};
use crate::names::New;
use tonearm_disk::{DiskError, Piece, Volume, VolumeInfo};
use tonearm_format::{ROOT_INO, Time};

/// Permissions of a file, and of a directory that its name needs.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;

/// A file that stays in the volume table.
#[derive(Clone, Debug)]
pub struct Left {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: FsError,
}

/// True when one file cannot be moved for this reason, and others can.
fn stays(why: &FsError) -> bool {
    let has_no_place = matches!(
        why,
        FsError::Exists | FsError::NotDirectory | FsError::Invalid(_) | FsError::NameTooLong
    );
    has_no_place || why.is_full() || why.is_damage()
}

impl Fs {
    /// Moves the files of the volume table into the tree. Returns those that stay: sessions find them in the table, and the mount
    /// does not show them.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn convert(&self) -> Result<Vec<Left>, FsError> {
        let mut left = Vec::new();
        for info in self.disk().files() {
            match self.take_table_file(&info).await {
                Ok(()) => {}
                Err(why) if stays(&why) => {
                    let name = info.name;
                    left.push(Left { name, why });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(left)
    }

    async fn take_table_file(&self, info: &VolumeInfo) -> Result<(), FsError> {
        let path = info.name.as_bytes();
        // A file that the mount has made keeps its name.
        match self.at(path).await {
            Err(FsError::NotFound) => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(FsError::Exists),
        }
        if info.name.split('/').any(|part| part == "..") {
            return Err(FsError::Invalid("its name is no path in a file system"));
        }
        let volume = self.disk().volume(&info.name)?;
        self.check_room(&volume, info).await?;
        let root = self.attr(ROOT_INO).await?.inode;
        let new = |mode| New {
            mode,
            uid: root.uid,
            gid: root.gid,
            rdev: 0,
        };
        let copy = self
            .make_unnamed(ROOT_INO, new(REGULAR | FILE_MODE))
            .await?;
        let taken = self.copy_volume(&volume, info, copy.ino).await;
        let named = match taken {
            Ok(()) => {
                self.name_copy(info, copy.ino, new(DIRECTORY | DIRECTORY_MODE))
                    .await
            }
            failed => failed,
        };
        // Without a name it is freed.
        self.close_handle(copy.ino);
        named
    }

    /// Checks that there is room for a copy, so that no space is taken in vain.
    async fn check_room(&self, volume: &Volume, info: &VolumeInfo) -> Result<(), FsError> {
        let (mut at, mut needed_bytes) = (0, 0);
        while at < info.size_bytes {
            for (bytes, has_space) in volume.status(at, info.size_bytes - at).await? {
                at += bytes;
                needed_bytes += if has_space { bytes } else { 0 };
            }
        }
        let space = self.space().await?;
        let free_bytes = space.free_blocks * u64::from(space.block_size);
        match needed_bytes <= free_bytes {
            true => Ok(()),
            false => Err(DiskError::StoreFull {
                free_bytes,
                needed_bytes,
            }
            .into()),
        }
    }

    async fn copy_volume(
        &self,
        volume: &Volume,
        info: &VolumeInfo,
        ino: u64,
    ) -> Result<(), FsError> {
        let mut at = 0;
        while at < info.size_bytes {
            let len = COPY_BYTES.min(info.size_bytes - at);
            for piece in volume.read(at, len).await? {
                match piece {
                    // Zeroes become a hole.
                    Piece::Zero(count) => at += count as u64,
                    Piece::Data(data) => {
                        self.write(ino, at, &data).await?;
                        at += data.len() as u64;
                    }
                }
            }
        }
        let made = Time {
            s: info.created_unix_s as i64,
            ns: 0,
        };
        let set = SetAttr {
            size: Some(info.size_bytes),
            mtime: Some(made),
            ..SetAttr::default()
        };
        self.set_attr(ino, set).await.map(drop)
    }

    /// Gives a copy its name, and deletes the volume, in one unit.
    async fn name_copy(&self, info: &VolumeInfo, ino: u64, directory: New) -> Result<(), FsError> {
        let unit = self.begin()?;
        let mut parts: Vec<&str> = info
            .name
            .split('/')
            .filter(|part| !part.is_empty())
            .collect();
        let name = parts.pop().ok_or(FsError::Invalid("it has no name"))?;
        let mut dir = ROOT_INO;
        for part in parts {
            dir = match unit.fs().make(dir, part.as_bytes(), directory).await {
                Err(FsError::Exists) => unit.fs().look_up(dir, part.as_bytes()).await?.ino,
                made => made?.ino,
            };
        }
        unit.fs().link(ino, dir, name.as_bytes()).await?;
        let deleted = unit.with_disk(async |aru| aru.delete_volume(&info.name).await);
        deleted.await??;
        unit.commit().await.map(drop)
    }
}

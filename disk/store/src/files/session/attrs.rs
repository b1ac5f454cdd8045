//! Symbolic links and attributes, by path. A session makes and describes links; only the mount follows them.

use super::names::{named, no_file};
use super::{Session, failed};
use crate::files::{AruId, FilesError, NewAttr};
use crate::open_unit::OpenUnit;
use tonearm_fs::{Fs, FsError, NewInode, SetAttr, Time};

/// The mode of a symbolic link.
const LINK_MODE: u32 = 0o120_777;
/// The bits of a mode that can be changed.
const PERMISSIONS: u32 = 0o7777;

impl Session {
    pub async fn read_link(&self, path: &str) -> Result<String, FilesError> {
        let fs = self.fs().await?.ok_or_else(|| no_file(path))?;
        let read = async { fs.read_link(fs.at(path.as_bytes()).await?.ino).await };
        let target = read.await.map_err(|error| named(path, error))?;
        String::from_utf8(target).map_err(|_| {
            failed(format!(
                "{path:?}: the target of the link is not UTF-8; read it on the mount"
            ))
        })
    }

    pub async fn make_link(&self, path: &str, target: &str) -> Result<(), FilesError> {
        let fs = self.fs_to_change().await?;
        let made = async {
            if self.disk().volume(path).is_ok() {
                return Err(FsError::Exists);
            }
            if target.is_empty() {
                return Err(FsError::Invalid("a symbolic link needs a target"));
            }
            let (dir, own) = fs.above(path.as_bytes()).await?;
            let new = owned_as(&fs, dir, LINK_MODE).await?;
            fs.make_link(dir, own, target.as_bytes(), new).await
        };
        made.await.map_err(|error| named(path, error))?;
        self.acknowledge_all().await
    }

    pub async fn set_attr(
        &self,
        path: &str,
        aru: Option<AruId>,
        set: NewAttr,
    ) -> Result<(), FilesError> {
        let time = |unix_s| Time {
            s: i64::try_from(unix_s).unwrap_or(i64::MAX),
            ns: 0,
        };
        let set = SetAttr {
            mode: set.mode.map(|mode| mode & PERMISSIONS),
            mtime: set.modified_unix_s.map(time),
            ..SetAttr::default()
        };
        let apply = async |fs: &Fs| {
            let done = async { fs.set_attr(fs.at(path.as_bytes()).await?.ino, set).await };
            done.await.map(drop).map_err(|error| named(path, error))
        };
        let Some(id) = aru else {
            apply(&self.fs_to_change().await?).await?;
            return self.acknowledge_all().await;
        };
        let system = self.system().clone();
        let within = async |unit: &mut OpenUnit| apply(unit.files(&system).await?.fs()).await;
        self.within(id, within).await
    }
}

/// A new file of the owner of the directory `dir`.
pub(super) async fn owned_as(fs: &Fs, dir: u64, mode: u32) -> Result<NewInode, FsError> {
    let above = fs.attr(dir).await?.inode;
    Ok(NewInode {
        mode,
        uid: above.uid,
        gid: above.gid,
        rdev: 0,
    })
}

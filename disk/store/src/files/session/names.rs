//! Names: paths in the file system.

use super::attrs::owned_as;
use super::{
    BETWEEN_LOOKS, CLOSING, DIRECTORY_MODE, FILE_MODE, Handle, LISTED, Opened, Session, failed,
};
use crate::files::{AruId, FileInfo, FilesError, FilesErrorKind, Listing, Open};
use crate::open_unit::OpenUnit;
use tonearm_fs::{Attr, Fs, FsError, Inode, Rename};

impl Session {
    /// Opens a file.
    pub async fn open(&self, name: &str, how: Open) -> Result<Opened, FilesError> {
        self.check_files()?;
        let fs = if how.create {
            self.fs_to_change().await?
        } else {
            self.fs().await?.ok_or_else(|| no_file(name))?
        };
        let rt = &self.0.sessions.0.rt;
        let until = rt.now() + CLOSING.0;
        loop {
            match fs.at(name.as_bytes()).await {
                Ok(_) if how.create && how.exclusive => return Err(there_is(name)),
                Ok(attr) => {
                    check_regular(name, &attr)?;
                    match Handle::open(&fs, attr.ino) {
                        // The name may stand for another file by then.
                        Err(FsError::Busy(_)) if rt.now() < until => rt.sleep(BETWEEN_LOOKS).await,
                        Err(error) => return Err(named(name, error)),
                        Ok(handle) => return Ok(self.opened(handle)),
                    }
                    continue;
                }
                Err(FsError::NotFound) if how.create => {}
                Err(error) => return Err(named(name, error)),
            }
            match self.make(&fs, name, FILE_MODE).await {
                Ok(ino) => {
                    let handle = Handle::open(&fs, ino)?;
                    self.acknowledge_all().await?;
                    return Ok(self.opened(handle));
                }
                // Another program has made it meanwhile.
                Err(FsError::Exists) => {}
                Err(FsError::NotFound) => return Err(no_directory(name)),
                Err(error) => return Err(named(name, error)),
            }
        }
    }

    /// Makes a file or directory.
    pub(super) async fn make(&self, fs: &Fs, name: &str, mode: u32) -> Result<u64, FsError> {
        match self.disk().volume(name) {
            Ok(_) => Err(FsError::Exists),
            Err(_) => make(fs, name, mode).await,
        }
    }

    /// Makes a file within a unit; as [`Session::open`].
    pub async fn create(&self, aru: AruId, name: &str) -> Result<Opened, FilesError> {
        self.check_files()?;
        let system = self.system().clone();
        let create = async |unit: &mut OpenUnit| {
            let fs = unit.files(&system).await?.fs().clone();
            let made = self.make(&fs, name, FILE_MODE).await;
            Ok(Handle::open(
                &fs,
                made.map_err(|error| named(name, error))?,
            )?)
        };
        Ok(self.opened(self.within(aru, create).await?))
    }

    /// What is at `path`.
    pub async fn look(&self, path: &str) -> Result<FileInfo, FilesError> {
        let Some(fs) = self.fs().await? else {
            // The root directory is there before anything is in it.
            let root = Inode {
                mode: DIRECTORY_MODE,
                ..Inode::default()
            };
            return if is_root(path) {
                Ok(info(b"", &root))
            } else {
                Err(no_file(path))
            };
        };
        let attr = fs.at(path.as_bytes()).await;
        let attr = attr.map_err(|error| named(path, error))?;
        let name = path.rsplit('/').next().unwrap_or_default();
        Ok(info(name.as_bytes(), &attr.inode))
    }

    /// A part of the directory `path`, from after the place `after` on.
    pub async fn list(&self, path: &str, after: u64) -> Result<Listing, FilesError> {
        let mut listing = Listing::default();
        let Some(fs) = self.fs().await? else {
            return Ok(listing);
        };
        let list = async {
            let dir = fs.at(path.as_bytes()).await?.ino;
            fs.list_with_attrs(dir, after, LISTED).await
        };
        let listed = list.await.map_err(|error| named(path, error))?;
        listing.after = listed.last().map(|(last, _)| last.place);
        for (one, attr) in listed {
            if !matches!(&one.name[..], b"." | b"..") {
                listing.files.push(info(&one.name, &attr.inode));
            }
        }
        Ok(listing)
    }

    pub async fn make_dir(&self, path: &str) -> Result<(), FilesError> {
        let fs = self.fs_to_change().await?;
        let made = self.make(&fs, path, DIRECTORY_MODE).await;
        made.map_err(|error| named(path, error))?;
        self.acknowledge_all().await
    }

    pub async fn exists(&self, name: &str) -> Result<bool, FilesError> {
        let Some(fs) = self.fs().await? else {
            return Ok(false);
        };
        match fs.at(name.as_bytes()).await {
            Ok(attr) => Ok(attr.inode.mode >> 12 == FILE_MODE >> 12),
            Err(FsError::NotFound | FsError::NotDirectory) => Ok(false),
            Err(error) => Err(named(name, error)),
        }
    }

    pub async fn delete(&self, name: &str) -> Result<(), FilesError> {
        let fs = self.fs().await?.ok_or_else(|| no_file(name))?;
        let delete = async {
            let (dir, own) = fs.above(name.as_bytes()).await?;
            match fs.unlink(dir, own).await {
                Err(FsError::IsDirectory) => fs.remove_dir(dir, own).await,
                done => done,
            }
        };
        delete.await.map_err(|error| named(name, error))?;
        self.acknowledge_all().await
    }

    pub async fn rename(&self, from: &str, to: &str) -> Result<(), FilesError> {
        if self.disk().volume(to).is_ok() {
            return Err(there_is(to));
        }
        let fs = self.fs().await?.ok_or_else(|| no_file(from))?;
        let rename = async {
            let (from, to) = (
                fs.above(from.as_bytes()).await?,
                fs.above(to.as_bytes()).await?,
            );
            fs.rename(from, to, Rename::NoReplace).await
        };
        rename.await.map_err(|error| match error {
            FsError::Exists => there_is(to),
            error => named(from, error),
        })?;
        self.acknowledge_all().await
    }
}

/// Makes a file or directory, which belongs to the owner of the directory above it. Returns its number.
pub(crate) async fn make(fs: &Fs, name: &str, mode: u32) -> Result<u64, FsError> {
    let (dir, own) = fs.above(name.as_bytes()).await?;
    let new = owned_as(fs, dir, mode).await?;
    Ok(fs.make(dir, own, new).await?.ino)
}

/// Checks that sessions can open a file.
fn check_regular(name: &str, attr: &Attr) -> Result<(), FilesError> {
    let what = match attr.inode.mode >> 12 {
        0o10 => return Ok(()),
        0o04 => "is a directory",
        0o12 => "is a symbolic link, which only the mount follows; name the file itself",
        _ => "is no regular file",
    };
    Err(failed(format!("{name:?} {what}")))
}

fn is_root(path: &str) -> bool {
    path.trim_matches('/').is_empty()
}

fn info(name: &[u8], inode: &Inode) -> FileInfo {
    FileInfo {
        name: String::from_utf8_lossy(name).into_owned(),
        size_bytes: inode.size,
        created_unix_s: u64::try_from(inode.btime.s).unwrap_or_default(),
        modified_unix_s: u64::try_from(inode.mtime.s).unwrap_or_default(),
        mode: inode.mode,
        uid: inode.uid,
        gid: inode.gid,
    }
}

pub(super) fn no_file(name: &str) -> FilesError {
    let text = format!("there is no file {name:?}; `tonearm files list` shows all");
    FilesError::new(FilesErrorKind::NotFound, text)
}

fn no_directory(name: &str) -> FilesError {
    let text = format!("there is no directory for {name:?}; make it with `tonearm files mkdir`");
    FilesError::new(FilesErrorKind::NotFound, text)
}

fn there_is(name: &str) -> FilesError {
    let text = format!("there is a volume or file {name:?} already");
    FilesError::new(FilesErrorKind::Exists, text)
}

/// The error of an operation on the file `name`.
pub(crate) fn named(name: &str, error: FsError) -> FilesError {
    match error {
        FsError::NotFound => no_file(name),
        FsError::Exists => there_is(name),
        error => {
            let mut error = FilesError::from(error);
            error.text = format!("{name:?}: {}", error.text);
            error
        }
    }
}

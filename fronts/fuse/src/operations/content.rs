//! Operations on the content of files.

use super::context::{Context, take_privilege};
use crate::message::{Answer, Read, Write, WriteKind};
use crate::notices::Notice;
use crate::units::Place;
use tonearm_fs::FsError;

impl Context<'_> {
    pub async fn open(&self, ino: u64, direct: bool) -> Result<Answer, FsError> {
        let fs = self.fs();
        // The handle comes first, so that the file is not deleted meanwhile.
        fs.open_handle(ino)?;
        if let Err(error) = fs.attr(ino).await {
            fs.close_handle(ino);
            return Err(error);
        }
        let direct = self.opened(ino, direct);
        Ok(Answer::Opened { direct })
    }

    pub async fn read(&self, read: Read) -> Result<Answer, FsError> {
        if read.cached && self.differs(read.ino) {
            return Err(FsError::Unsupported(
                "the page cache has no content of a file that a unit has changed",
            ));
        }
        let pieces = self.fs().read(read.ino, read.offset, read.len).await;
        pieces.map(Answer::Pieces)
    }

    pub async fn write(&self, write: Write) -> Result<Answer, FsError> {
        let Write {
            ino,
            offset,
            data,
            durable,
            ..
        } = write;
        let fs = match (&self.place, write.kind) {
            (Place::Unit(unit), WriteKind::Buffered) if !unit.has_made(ino) => {
                return Err(FsError::Invalid("the descriptor has lost its O_DIRECT"));
            }
            // A mapped page may have been changed by any process, so its write is not one of the unit.
            (Place::Unit(unit), WriteKind::Mapped) if !unit.has_made(ino) => self.committed,
            _ => self.fs(),
        };
        if write.kill_suid {
            take_privilege(fs, ino).await?;
        }
        let at = if write.append && fs.unit_counts().begun > 0 {
            fs.attr(ino).await?.inode.size
        } else {
            offset
        };
        fs.write(ino, at, &data).await?;
        if at != offset {
            // The kernel has taken the size of the file in a unit for its size.
            self.notify(Notice {
                files: vec![ino],
                ..Notice::default()
            });
        }
        if durable {
            fs.sync(Some(ino)).await?;
        }
        Ok(Answer::Count(data.len() as u64))
    }

    /// Copies between places in files. `from_handle` is the handle that is read.
    pub async fn copy(
        &self,
        from: (u64, u64),
        from_handle: u64,
        to: (u64, u64),
        len: u64,
    ) -> Result<Answer, FsError> {
        let source = self.units.place_of(from_handle, true, None)?;
        take_privilege(self.fs(), to.0).await?;
        let copied = self.fs().copy(source.fs(self.committed), from, to, len);
        copied.await.map(Answer::Count)
    }
}

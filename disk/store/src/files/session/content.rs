//! The content of files and volumes.

use super::{OpenFile, RUNS_MAX, Session, failed};
use crate::aru::read_in_unit;
use crate::files::{AruId, Due, FileId, FilesError, FilesErrorKind, HeldWrite};
use crate::open_unit::OpenUnit;
use std::collections::BTreeMap;
use tonearm_base::{AlignedMemory, LooseBuf};
use tonearm_disk::{Aru, DiskError, Piece, Volume};
use tonearm_fs::{Allocate, Fs, FsError, Seek, SetAttr};

impl Session {
    /// Makes a range read as zeroes.
    pub async fn zero(&self, file: FileId, offset: u64, len: u64) -> Result<(), FilesError> {
        match self.file(file)? {
            OpenFile::Volume(volume) => Ok(volume.write_zeroes(offset, len, false, false).await?),
            OpenFile::File(file) => {
                let punched = file.fs.allocate(file.ino, offset, len, Allocate::Punch);
                punched.await?;
                self.acknowledge_all().await
            }
        }
    }

    /// Which parts of a range are allocated, at least for the first part of it.
    pub async fn status(
        &self,
        file: FileId,
        offset: u64,
        len: u64,
    ) -> Result<Vec<(u64, bool)>, FilesError> {
        let mut runs = match self.file(file)? {
            OpenFile::Volume(volume) => volume.status(offset, len).await?,
            OpenFile::File(file) => file_status(&file.fs, file.ino, offset, len).await?,
        };
        runs.truncate(RUNS_MAX);
        Ok(runs)
    }

    pub async fn size(&self, file: FileId, aru: Option<AruId>) -> Result<u64, FilesError> {
        let open = self.file(file)?;
        let Some(id) = aru else {
            return Ok(match open {
                OpenFile::Volume(volume) => volume.size_bytes(),
                OpenFile::File(file) => file.fs.size(file.ino).await?,
            });
        };
        let system = self.system().clone();
        let size = async |unit: &mut OpenUnit| match &open {
            OpenFile::Volume(volume) => {
                let size = async |aru: &mut Aru| Ok(aru.size_bytes(volume));
                Ok(unit.with_disk(size).await?)
            }
            OpenFile::File(file) => Ok(unit.files(&system).await?.fs().size(file.ino).await?),
        };
        self.within(id, size).await
    }

    /// At most `len` bytes at `offset`, fewer at the end of the file.
    pub async fn read(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, FilesError> {
        match (self.file(file)?, aru) {
            (OpenFile::Volume(volume), Some(id)) => {
                let read = async |aru: &mut Aru| read_in_unit(aru, &volume, offset, len).await;
                let within = async |unit: &mut OpenUnit| Ok(unit.with_disk(read).await?);
                self.within(id, within).await
            }
            (OpenFile::Volume(volume), None) => read_volume(&volume, offset, len).await,
            (OpenFile::File(file), None) => Ok(Piece::concat(
                &file.fs.read(file.ino, offset, len as u64).await?,
            )),
            (OpenFile::File(file), Some(id)) => {
                let system = self.system().clone();
                let read = async |unit: &mut OpenUnit| {
                    let fs = unit.files(&system).await?.fs();
                    Ok(Piece::concat(&fs.read(file.ino, offset, len as u64).await?))
                };
                self.within(id, read).await
            }
        }
    }

    /// Carries out the writes that a client has kept back of unit `id`. Returns memory for as many bytes, as far as
    /// some is free. A file that was deleted since is a conflict.
    pub async fn catch_up(&self, id: AruId, due: Due) -> Result<Vec<AlignedMemory>, FilesError> {
        if due.begin {
            self.begin(id)?;
        }
        let mut spare = Vec::new();
        let mut by_file: BTreeMap<FileId, Vec<(u64, LooseBuf)>> = BTreeMap::new();
        for HeldWrite { file, offset, data } in due.writes {
            if let LooseBuf::Aligned(_) = data {
                spare.extend(self.disk().spare_memory(data.len()));
            }
            by_file.entry(file).or_default().push((offset, data));
        }
        for (file, writes) in by_file {
            let written = self.write_in_unit(file, id, writes).await;
            written.map_err(|error| match error.kind {
                FilesErrorKind::NotFound => FilesError::new(FilesErrorKind::Conflict, error.text),
                _ => error,
            })?;
        }
        Ok(spare)
    }

    pub async fn write(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        data: LooseBuf,
    ) -> Result<(), FilesError> {
        if let Some(id) = aru {
            return self.write_in_unit(file, id, vec![(offset, data)]).await;
        }
        match self.file(file)? {
            OpenFile::Volume(volume) => {
                let lsn = self.disk().write_buf(&volume, offset, data).await?;
                self.acknowledge(lsn, false).await
            }
            OpenFile::File(file) => {
                let lsn = file.fs.write_all(file.ino, vec![(offset, data)]).await?;
                self.acknowledge(lsn, false).await
            }
        }
    }

    async fn write_in_unit(
        &self,
        file: FileId,
        id: AruId,
        writes: Vec<(u64, LooseBuf)>,
    ) -> Result<(), FilesError> {
        match self.file(file)? {
            OpenFile::Volume(volume) => {
                let write = async move |aru: &mut Aru| {
                    for (offset, data) in writes {
                        aru.write_buf(&volume, offset, data).await?;
                    }
                    Ok(())
                };
                let within = async move |unit: &mut OpenUnit| Ok(unit.with_disk(write).await?);
                self.within(id, within).await
            }
            OpenFile::File(file) => {
                let system = self.system().clone();
                let write = async move |unit: &mut OpenUnit| {
                    let fs = unit.files(&system).await?.fs();
                    Ok(fs.write_all(file.ino, writes).await.map(drop)?)
                };
                self.within(id, write).await
            }
        }
    }

    pub async fn truncate(
        &self,
        file: FileId,
        aru: Option<AruId>,
        size: u64,
    ) -> Result<(), FilesError> {
        match self.file(file)? {
            OpenFile::Volume(_) => Err(failed(
                "the size of a volume is changed by `tonearm volume resize`",
            )),
            OpenFile::File(file) => {
                let set = SetAttr {
                    size: Some(size),
                    ..SetAttr::default()
                };
                let Some(id) = aru else {
                    file.fs.set_attr(file.ino, set).await?;
                    return self.acknowledge_all().await;
                };
                let system = self.system().clone();
                let resize = async |unit: &mut OpenUnit| {
                    let fs = unit.files(&system).await?.fs();
                    Ok(fs.set_attr(file.ino, set).await.map(drop)?)
                };
                self.within(id, resize).await
            }
        }
    }
}

async fn read_volume(volume: &Volume, offset: u64, len: usize) -> Result<Vec<u8>, FilesError> {
    loop {
        let size = volume.size_bytes();
        let part = size.saturating_sub(offset).min(len as u64);
        match volume.read(offset.min(size), part).await {
            Ok(pieces) => return Ok(Piece::concat(&pieces)),
            // The file was made shorter during the read.
            Err(DiskError::OutOfRange { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Runs of bytes, and whether they have space.
async fn file_status(
    fs: &Fs,
    ino: u64,
    offset: u64,
    len: u64,
) -> Result<Vec<(u64, bool)>, FilesError> {
    let size = fs.size(ino).await?;
    let end = offset.checked_add(len).filter(|end| *end <= size);
    let end = end.ok_or_else(|| failed("the range is not within the file"))?;
    let (mut runs, mut at) = (Vec::new(), offset);
    while at < end && runs.len() < RUNS_MAX {
        let data = match fs.seek(ino, at, Seek::Data).await {
            Err(FsError::NothingBehind) => end,
            data => data?.min(end),
        };
        let hole = if data < end {
            fs.seek(ino, data, Seek::Hole).await?.min(end)
        } else {
            end
        };
        let parts = [(data - at, false), (hole - data, true)];
        runs.extend(parts.into_iter().filter(|(bytes, _)| *bytes > 0));
        at = hole;
    }
    Ok(runs)
}

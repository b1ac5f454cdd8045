//! Files in memory that keep the order of all effects: a power cut leaves the effects up to any one that is not older
//! than the last flush.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tonearm_store::files::{
    AruId, FileId, FileInfo, Files, FilesError, FilesErrorKind, Level, Listing, NewAttr, Open,
};
use tonearm_store::{ArchiveInfo, Lsn, Marks};

/// A change of one file.
#[derive(Clone, Debug)]
pub enum Op {
    Create(String),
    Delete(String),
    Write(u64, u64, Vec<u8>),
    Truncate(u64, u64),
}

/// Names and contents, by inode.
#[derive(Clone, Default)]
pub struct Content {
    names: BTreeMap<String, u64>,
    files: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

impl Content {
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Create(name) => {
                self.names.insert(name.clone(), self.next);
                self.files.insert(self.next, Vec::new());
                self.next += 1;
            }
            Op::Delete(name) => {
                let inode = self.names.remove(name).unwrap();
                self.files.remove(&inode);
            }
            Op::Write(inode, offset, data) => {
                write(self.files.get_mut(inode).unwrap(), *offset, data)
            }
            Op::Truncate(inode, size) => {
                self.files.get_mut(inode).unwrap().resize(*size as usize, 0)
            }
        }
    }

    pub fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }
}

fn write(file: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let (from, to) = (offset as usize, offset as usize + data.len());
    file.resize(file.len().max(to), 0);
    file[from..to].copy_from_slice(data);
}

/// The requests, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    Begin,
    Write { in_unit: bool },
    Truncate { in_unit: bool },
    End { durable: bool },
    Abort,
    Flush,
    Wait(Lsn),
}

#[derive(Default)]
struct Unit {
    ops: Vec<Op>,
    shadows: BTreeMap<u64, Vec<u8>>,
}

#[derive(Default)]
struct Inner {
    start: Content,
    now: Content,
    effects: Vec<Vec<Op>>,
    durable: usize,
    handles: BTreeMap<u64, (u64, Level)>,
    units: BTreeMap<u64, Unit>,
    next: u64,
    calls: Vec<Call>,
    /// Writes in a unit take effect at once: a store that breaks its promise.
    torn: bool,
    /// The calls from the first on to the second fail with this.
    fail: Option<(usize, usize, FilesErrorKind)>,
    /// The files are those of a server.
    served: bool,
    /// The server is gone.
    over: bool,
}

/// The files.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Inner>>);

impl Memory {
    pub fn with(content: Content) -> Self {
        let memory = Self::default();
        let mut inner = memory.inner();
        inner.start = content.clone();
        inner.now = content;
        drop(inner);
        memory
    }

    /// A store without units.
    pub fn torn() -> Self {
        let memory = Self::default();
        memory.inner().torn = true;
        memory
    }

    /// A session with a server.
    pub fn served(content: Content) -> Self {
        let memory = Self::with(content);
        memory.inner().served = true;
        memory
    }

    /// The server dies.
    pub fn lose_server(&self) {
        self.inner().over = true;
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub fn content(&self) -> Content {
        self.inner().now.clone()
    }

    pub fn calls(&self) -> Vec<Call> {
        self.inner().calls.clone()
    }

    pub fn forget_calls(&self) {
        self.inner().calls.clear();
    }

    /// Units that are open.
    pub fn units(&self) -> usize {
        self.inner().units.len()
    }

    /// Effects so far, and how many of them are durable.
    pub fn effects(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.effects.len(), inner.durable)
    }

    /// Calls `look` with the content after each effect.
    pub fn replay(&self, mut look: impl FnMut(usize, &Content)) {
        let (mut content, effects) = {
            let inner = self.inner();
            (inner.start.clone(), inner.effects.clone())
        };
        look(0, &content);
        for (index, effect) in effects.iter().enumerate() {
            effect.iter().for_each(|op| content.apply(op));
            look(index + 1, &content);
        }
    }

    /// Has `count` calls that change something fail, after the next `after` ones.
    pub fn fail(&self, after: usize, count: usize, kind: FilesErrorKind) {
        let mut inner = self.inner();
        let first = inner.calls.len() + after;
        inner.fail = Some((first, first + count, kind));
    }
}

impl Inner {
    fn alive(&self) -> Result<(), FilesError> {
        let gone = || FilesError::new(FilesErrorKind::Failed, "the server has gone away");
        (!self.over).then_some(()).ok_or_else(gone)
    }

    fn call(&mut self, call: Call) -> Result<(), FilesError> {
        self.alive()?;
        let number = self.calls.len();
        self.calls.push(call);
        match self.fail {
            Some((first, end, kind)) if (first..end).contains(&number) => Err(FilesError::new(
                kind,
                format!("call {number} fails as planned"),
            )),
            _ => Ok(()),
        }
    }

    fn inode(&self, file: FileId) -> Result<u64, FilesError> {
        self.alive()?;
        let inode = self.handles.get(&file.0).map(|(inode, _)| *inode);
        let inode = inode.filter(|inode| self.now.files.contains_key(inode));
        inode.ok_or_else(|| FilesError::new(FilesErrorKind::NotFound, "the file was deleted"))
    }

    fn unit(&mut self, aru: AruId) -> Result<&mut Unit, FilesError> {
        let unit = self.units.get_mut(&aru.0);
        unit.ok_or_else(|| FilesError::new(FilesErrorKind::Failed, "no such unit"))
    }

    fn change(&mut self, inode: u64, aru: Option<AruId>, op: Op) -> Result<(), FilesError> {
        let Some(aru) = aru.filter(|_| !self.torn) else {
            self.now.apply(&op);
            self.effects.push(vec![op]);
            return Ok(());
        };
        let committed = self.now.files[&inode].clone();
        let unit = self.unit(aru)?;
        let shadow = unit.shadows.entry(inode).or_insert(committed);
        match &op {
            Op::Write(_, offset, data) => write(shadow, *offset, data),
            Op::Truncate(_, size) => shadow.resize(*size as usize, 0),
            Op::Create(_) | Op::Delete(_) => unreachable!("not in a unit"),
        }
        unit.ops.push(op);
        Ok(())
    }

    fn look<T>(
        &mut self,
        file: FileId,
        aru: Option<AruId>,
        look: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, FilesError> {
        let inode = self.inode(file)?;
        if let Some(aru) = aru
            && let Some(shadow) = self.unit(aru)?.shadows.get(&inode)
        {
            return Ok(look(shadow));
        }
        Ok(look(&self.now.files[&inode]))
    }

    fn others(&self, file: FileId, inode: u64) -> impl Iterator<Item = Level> + '_ {
        let others = self.handles.iter();
        others
            .filter(move |(id, (other, _))| **id != file.0 && *other == inode)
            .map(|(_, (_, level))| *level)
    }
}

impl Files for Memory {
    fn in_process(&self) -> Option<usize> {
        let number = Arc::as_ptr(&self.0).addr();
        (!self.inner().served).then_some(number)
    }

    fn is_over(&self) -> bool {
        self.inner().over
    }

    fn open(&self, name: &str, how: Open) -> Result<FileId, FilesError> {
        let mut inner = self.inner();
        inner.alive()?;
        if name.is_empty() || name.contains('/') {
            return Err(FilesError::new(
                FilesErrorKind::Failed,
                format!("{name:?} cannot be a name"),
            ));
        }
        let inode = match inner.now.names.get(name) {
            Some(_) if how.exclusive => {
                return Err(FilesError::new(
                    FilesErrorKind::Exists,
                    format!("{name} exists"),
                ));
            }
            Some(inode) => *inode,
            None if how.create => {
                let op = Op::Create(name.to_owned());
                inner.now.apply(&op);
                inner.effects.push(vec![op]);
                inner.now.names[name]
            }
            None => {
                return Err(FilesError::new(
                    FilesErrorKind::NotFound,
                    format!("no file {name}"),
                ));
            }
        };
        inner.next += 1;
        let id = inner.next;
        inner.handles.insert(id, (inode, Level::None));
        Ok(FileId(id))
    }

    fn create(&self, _: AruId, _: &str) -> Result<FileId, FilesError> {
        unreachable!("SQLite knows no units when it makes files")
    }

    fn open_volume(&self, _: &str) -> Result<FileId, FilesError> {
        unreachable!("SQLite keeps nothing in volumes")
    }

    fn zero(&self, _: FileId, _: u64, _: u64) -> Result<(), FilesError> {
        unreachable!("SQLite zeroes nothing")
    }

    fn status(&self, _: FileId, _: u64, _: u64) -> Result<Vec<(u64, bool)>, FilesError> {
        unreachable!("SQLite asks for no holes")
    }

    fn close(&self, file: FileId) {
        self.inner().handles.remove(&file.0);
    }

    fn look(&self, _: &str) -> Result<FileInfo, FilesError> {
        unreachable!("SQLite asks for no attributes")
    }

    fn list(&self, _: &str, _: u64) -> Result<Listing, FilesError> {
        unreachable!("SQLite lists nothing")
    }

    fn make_dir(&self, _: &str) -> Result<(), FilesError> {
        unreachable!("SQLite makes no directories")
    }

    fn read_link(&self, _: &str) -> Result<String, FilesError> {
        unreachable!("SQLite reads no links")
    }

    fn make_link(&self, _: &str, _: &str) -> Result<(), FilesError> {
        unreachable!("SQLite makes no links")
    }

    fn set_attr(&self, _: &str, _: Option<AruId>, _: NewAttr) -> Result<(), FilesError> {
        unreachable!("SQLite sets no attributes")
    }

    fn exists(&self, name: &str) -> Result<bool, FilesError> {
        let inner = self.inner();
        inner.alive()?;
        Ok(inner.now.names.contains_key(name))
    }

    fn delete(&self, name: &str) -> Result<(), FilesError> {
        let mut inner = self.inner();
        inner.alive()?;
        if !inner.now.names.contains_key(name) {
            return Err(FilesError::new(
                FilesErrorKind::NotFound,
                format!("no file {name}"),
            ));
        }
        let op = Op::Delete(name.to_owned());
        inner.now.apply(&op);
        inner.effects.push(vec![op]);
        Ok(())
    }

    fn rename(&self, _: &str, _: &str) -> Result<(), FilesError> {
        unreachable!("SQLite renames nothing")
    }

    fn size(&self, file: FileId, aru: Option<AruId>) -> Result<u64, FilesError> {
        self.inner().look(file, aru, |bytes| bytes.len() as u64)
    }

    fn read(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        buf: &mut [u8],
    ) -> Result<usize, FilesError> {
        self.inner().look(file, aru, |bytes| {
            let from = (offset as usize).min(bytes.len());
            let count = buf.len().min(bytes.len() - from);
            buf[..count].copy_from_slice(&bytes[from..from + count]);
            count
        })
    }

    fn begin(&self) -> Result<AruId, FilesError> {
        let mut inner = self.inner();
        inner.call(Call::Begin)?;
        inner.next += 1;
        let id = inner.next;
        inner.units.insert(id, Unit::default());
        Ok(AruId(id))
    }

    fn write(
        &self,
        file: FileId,
        aru: Option<AruId>,
        offset: u64,
        data: &[u8],
    ) -> Result<(), FilesError> {
        let mut inner = self.inner();
        inner.call(Call::Write {
            in_unit: aru.is_some(),
        })?;
        let inode = inner.inode(file)?;
        inner.change(inode, aru, Op::Write(inode, offset, data.to_vec()))
    }

    fn truncate(&self, file: FileId, aru: Option<AruId>, size: u64) -> Result<(), FilesError> {
        let mut inner = self.inner();
        inner.call(Call::Truncate {
            in_unit: aru.is_some(),
        })?;
        let inode = inner.inode(file)?;
        inner.change(inode, aru, Op::Truncate(inode, size))
    }

    fn end(&self, aru: AruId, durable: bool) -> Result<Lsn, FilesError> {
        let mut inner = self.inner();
        let unit = inner.units.remove(&aru.0).unwrap();
        inner.call(Call::End { durable })?;
        unit.ops.iter().for_each(|op| inner.now.apply(op));
        inner.effects.push(unit.ops);
        if durable {
            inner.durable = inner.effects.len();
        }
        Ok(Lsn(inner.effects.len() as u64))
    }

    fn abort(&self, aru: AruId) {
        let mut inner = self.inner();
        inner.calls.push(Call::Abort);
        inner.units.remove(&aru.0);
    }

    fn flush(&self) -> Result<(), FilesError> {
        let mut inner = self.inner();
        inner.call(Call::Flush)?;
        inner.durable = inner.effects.len();
        Ok(())
    }

    /// The LSN of an effect is its number.
    fn marks(&self) -> Result<Marks, FilesError> {
        let inner = self.inner();
        inner.alive()?;
        let appended = Lsn(inner.effects.len() as u64);
        Ok(Marks {
            appended,
            flushed: appended,
            durable: Lsn(inner.durable as u64),
        })
    }

    fn archive(&self) -> Result<Option<ArchiveInfo>, FilesError> {
        Ok(None)
    }

    fn wait_archived(&self, lsn: Lsn) -> Result<(), FilesError> {
        let text = format!("commit {lsn} is not archived: the store has no archive");
        Err(FilesError::new(FilesErrorKind::Failed, text))
    }

    fn wait_durable(&self, lsn: Lsn) -> Result<(), FilesError> {
        let mut inner = self.inner();
        inner.call(Call::Wait(lsn))?;
        inner.durable = inner.durable.max(lsn.0 as usize);
        Ok(())
    }

    fn lock(&self, file: FileId, level: Level) -> Result<bool, FilesError> {
        let mut inner = self.inner();
        let inode = inner.inode(file)?;
        let now = inner.handles[&file.0].1;
        let highest = inner.others(file, inode).max().unwrap_or_default();
        let got = match level {
            Level::Shared => highest < Level::Pending,
            Level::Reserved => highest < Level::Reserved,
            Level::Exclusive => highest == Level::None,
            Level::None | Level::Pending => unreachable!("not asked for"),
        };
        let waits = level == Level::Exclusive && highest == Level::Shared;
        let held = match (got, waits) {
            (true, _) => level,
            (false, true) => Level::Pending,
            (false, false) => now,
        };
        inner.handles.get_mut(&file.0).unwrap().1 = held;
        Ok(got)
    }

    fn unlock(&self, file: FileId, level: Level) -> Result<(), FilesError> {
        if let Some((_, held)) = self.inner().handles.get_mut(&file.0) {
            *held = level.min(*held);
        }
        Ok(())
    }

    fn reserved(&self, file: FileId) -> Result<bool, FilesError> {
        let inner = self.inner();
        let inode = inner.inode(file)?;
        let own = inner.handles[&file.0].1;
        Ok(inner
            .others(file, inode)
            .chain([own])
            .any(|level| level >= Level::Reserved))
    }
}

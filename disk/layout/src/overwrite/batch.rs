//! Changing operations on devices, many under way at once.
//!
//! Each operation has a task of its own, so that each operation that ends admits the next one. A write-back has an
//! operation for nearly each block, so the task is small.

use crate::error::HomeError;
use crate::overwrite::home::Overwrite;
use crate::overwrite::table_cache::Table;
use crate::queue::Turn;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tonearm_device::DeviceIo;
use tonearm_rt::{Data, IoError, Notify, Op};

/// A change of a device.
pub(crate) struct Operation {
    pub member: usize,
    pub op: Op,
    pub offset: u64,
    pub len: u64,
    pub data: Data,
    /// Held until the operation ends, so that the table is not evicted and read again during its write.
    pub table: Option<Rc<Table>>,
}

impl Operation {
    /// A write of all of `data` at `offset`.
    pub fn write(member: usize, offset: u64, data: Data) -> Self {
        Self {
            member,
            op: Op::Write,
            offset,
            len: data.len() as u64,
            data,
            table: None,
        }
    }

    /// A punch or zero.
    pub fn command(member: usize, op: Op, range: Range<u64>) -> Self {
        Self {
            member,
            op,
            offset: range.start,
            len: range.end - range.start,
            data: Data::None,
            table: None,
        }
    }
}

/// Operations under way.
pub(crate) struct Batch {
    home: Overwrite,
    progress: Rc<Progress>,
}

struct Progress {
    under_way: Cell<usize>,
    failed: RefCell<Option<HomeError>>,
    /// The last one under way has ended.
    idle: Notify,
}

impl Overwrite {
    /// No operations yet.
    pub(crate) fn batch(&self) -> Batch {
        Batch {
            home: self.clone(),
            progress: Rc::new(Progress {
                under_way: Cell::new(0),
                failed: RefCell::default(),
                idle: Notify::new(&self.rt),
            }),
        }
    }
}

impl Batch {
    /// Starts `operation` when it has its turn at the device.
    pub async fn start(&mut self, operation: Operation) {
        let home = &self.home;
        let queue = &home.places.members[operation.member].queue;
        // What a punch or zero covers is not moved.
        let moved = operation.data.len() as u64;
        let turn = match queue.turn(operation.op, moved).await {
            Ok(turn) => turn,
            Err(error) => {
                self.progress.failed.borrow_mut().get_or_insert(error);
                return;
            }
        };
        if turn.flushed.is_some() {
            home.count(|stats| stats.flushes += 1);
        }
        let Operation {
            member,
            op,
            offset,
            len,
            data,
            table,
        } = operation;
        home.count_change(op, len);
        self.progress
            .under_way
            .set(self.progress.under_way.get() + 1);
        home.rt.spawn_detached(UnderWay {
            io: queue.device.io(op, offset, len, data),
            home: home.clone(),
            progress: self.progress.clone(),
            member,
            op,
            offset,
            len,
            _turn: turn,
            _table: table,
        });
    }

    /// Waits for all operations, also after an error. Returns the first error.
    pub async fn end(self) -> Result<(), HomeError> {
        while self.progress.under_way.get() > 0 {
            self.progress.idle.wait().await;
        }
        self.progress.failed.take().map_or(Ok(()), Err)
    }
}

/// The task of one operation.
struct UnderWay {
    io: DeviceIo,
    home: Overwrite,
    progress: Rc<Progress>,
    member: usize,
    op: Op,
    offset: u64,
    len: u64,
    _turn: Turn,
    _table: Option<Rc<Table>>,
}

impl Future for UnderWay {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (result, data) = ready!(self.io.as_mut().poll(context));
        drop(data);
        let whole = match result {
            Ok(moved) if self.op == Op::Write && moved as u64 != self.len => Err(IoError::EIO),
            other => other.map(|_| ()),
        };
        let progress = &self.progress;
        if let Err(error) = whole {
            let queue = &self.home.places.members[self.member].queue;
            let error = queue.error(self.op, self.offset, error);
            progress.failed.borrow_mut().get_or_insert(error);
        }
        progress.under_way.set(progress.under_way.get() - 1);
        if progress.under_way.get() == 0 {
            progress.idle.notify();
        }
        Poll::Ready(())
    }
}

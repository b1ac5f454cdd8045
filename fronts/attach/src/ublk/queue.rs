//! The queue of one device, on the engine's thread.

use super::abi::{IoRequest, queue, queue_command};
use super::execute::Executor;
use rustix::io::Errno;
use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use tonearm_rt::{Contained, Data, DeviceId, IoError, Notify, Op, Request, Rt};
use tonearm_uring::UblkDescriptors;

/// A queue that is served.
pub(super) struct Queue {
    pub rt: Rt,
    pub executor: Executor,
    /// /dev/ublkcN in the engine's ring.
    pub device: DeviceId,
    /// Mapped when the kernel has the commands: another server could not map them if this process died with the mapping and without the
    /// commands. No request comes before that.
    pub descriptors: OnceCell<UblkDescriptors>,
    /// Tags that are served.
    pub tags: Cell<u16>,
    /// Requests that are carried out.
    pub under_way: Cell<usize>,
    pub is_stopping: Cell<bool>,
    /// Why it ended, if that was not the end of its device.
    pub fault: Cell<Option<IoError>>,
    pub changed: Notify,
}

/// A tag that is served.
struct Tag(Rc<Queue>, u16);

impl Drop for Tag {
    fn drop(&mut self) {
        let Self(queue, _) = self;
        queue.tags.set(queue.tags.get() - 1);
        queue.changed.notify();
    }
}

/// A request that is carried out.
struct UnderWay<'a>(&'a Queue);

impl<'a> UnderWay<'a> {
    fn begin(queue: &'a Queue) -> Self {
        queue.under_way.set(queue.under_way.get() + 1);
        Self(queue)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let Self(queue) = self;
        queue.under_way.set(queue.under_way.get() - 1);
        if queue.is_stopping.get() {
            queue.changed.notify();
        }
    }
}

impl Queue {
    /// Serves `depth` tags from now on. All commands reach the kernel at the same time: it counts a queue that has some of them as one
    /// without a server.
    pub fn start(self: &Rc<Self>, depth: u16) {
        self.tags.set(depth);
        let contained = {
            let queue = self.clone();
            // Its request has no answer.
            Contained::new("a device of ublk", move || {
                queue.fault.set(Some(IoError::EIO));
                queue.changed.notify();
            })
        };
        for tag in 0..depth {
            let tag = Tag(self.clone(), tag);
            self.rt.spawn_contained(&contained, async move {
                tag.0.serve(tag.1).await;
            });
        }
    }

    /// Maps the descriptions of requests, once the kernel has the commands.
    ///
    /// # Errors
    /// When the kernel has refused a command, and those of mmap(2).
    pub fn map(&self, depth: u16) -> std::io::Result<()> {
        if let Some(error) = self.fault.get() {
            return Err(std::io::Error::from_raw_os_error(error.errno));
        }
        let descriptors = UblkDescriptors::map(&self.executor.data, depth)?;
        let _ = self.descriptors.set(descriptors);
        Ok(())
    }

    /// Resolves when the device has ended, or when a tag has failed: its request has no answer then, and waits for another server.
    pub async fn ended(&self) {
        while self.tags.get() > 0 && self.fault.get().is_none() {
            self.changed.wait().await;
        }
    }

    /// Takes no more requests, and resolves when those that it has taken are answered. The kernel keeps others for the next server.
    pub async fn stop(&self) {
        self.is_stopping.set(true);
        while self.under_way.get() > 0 {
            self.changed.wait().await;
        }
    }

    async fn serve(&self, tag: u16) {
        let (mut number, mut result) = (queue::FETCH, 0);
        let mut argument = self.executor.pool.alloc(queue_command(tag, 0).len());
        loop {
            argument.copy_from_slice(&queue_command(tag, result));
            let command = Request {
                device: self.device,
                op: Op::Command,
                offset: number.into(),
                len: 0,
                data: Data::whole(argument),
            };
            let (ended, data) = self.rt.io(command).await;
            argument = data.into_buf();
            match ended {
                Ok(_) if self.is_stopping.get() => return,
                Ok(_) => {}
                // The device was stopped.
                Err(error) if error.errno == Errno::NODEV.raw_os_error() => return,
                Err(error) => return self.fault.set(Some(error)),
            }
            let under_way = UnderWay::begin(self);
            let descriptors = self.descriptors.get();
            let descriptors = descriptors.expect("the device starts when they are mapped");
            let request = IoRequest::parse(descriptors.read(tag));
            result = self.executor.execute(tag, request).await;
            drop(under_way);
            number = queue::COMMIT_AND_FETCH;
        }
    }
}

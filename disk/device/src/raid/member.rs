//! A member of an array, from its opening until its failure.
//!
//! An operation that is under way when its member fails may end much later, when a replacement is in the member's place.
//! Its error must not count against the replacement. So every operation of a member that has failed ends with [`GONE`],
//! which marks no member as failed. No operation reaches the device any more, so its owner may close it.

use crate::device::{Device, DeviceIo, Filter, at_once};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_rt::{Data, IoError, Op};

/// Error of an operation on a member that has failed before (`ESHUTDOWN`). A device's own error of this number becomes
/// `EIO`.
pub(super) const GONE: IoError = IoError { errno: 108 };

/// A device that the array uses as a member.
pub(super) struct Member {
    device: Rc<dyn Device>,
    gone: Rc<Cell<bool>>,
}

impl Member {
    pub fn new(device: Rc<dyn Device>) -> Rc<Self> {
        Rc::new(Self {
            device,
            gone: Rc::default(),
        })
    }

    /// The array does not use the device any more.
    pub fn leave(&self) {
        self.gone.set(true);
    }
}

impl Filter for Member {
    fn inner(&self) -> &dyn Device {
        &*self.device
    }

    fn filter_io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        if self.gone.get() {
            return at_once(Err(GONE), data);
        }
        let (io, gone) = (self.device.io(op, offset, len, data), self.gone.clone());
        Box::pin(async move {
            let (result, data) = io.await;
            let result = result.map_err(|error| match gone.get() {
                true => GONE,
                false if error == GONE => IoError::EIO,
                false => error,
            });
            (result, data)
        })
    }
}

//! Two devices as one: pages lie on them in turn. Two drives with the tables of a database.

use std::rc::Rc;
use tonearm_device::{Device, DeviceIo, at_once, span};
use tonearm_rt::{Data, IoError, Op};

/// The devices, and the bytes of a page. An operation lies within one page.
pub struct Alternating {
    devices: [Rc<dyn Device>; 2],
    page: u64,
}

impl Alternating {
    /// Pages of `page` bytes on `devices`.
    pub fn new(devices: [Rc<dyn Device>; 2], page: u64) -> Self {
        Self { devices, page }
    }
}

impl Device for Alternating {
    fn name(&self) -> &str {
        "two devices"
    }

    fn size_bytes(&self) -> u64 {
        let least = self.devices.iter().map(|device| device.size_bytes()).min();
        2 * (least.unwrap_or(0) / self.page * self.page)
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        let (number, within) = (offset / self.page, offset % self.page);
        if op == Op::Flush {
            let [one, other] = self
                .devices
                .clone()
                .map(|device| device.io(op, 0, 0, Data::None));
            return Box::pin(async move {
                let (first, _) = one.await;
                let (second, data) = other.await;
                (first.and(second), data)
            });
        }
        if within + span(op, len, &data) > self.page {
            return at_once(Err(IoError::EINVAL), data);
        }
        let device = &self.devices[(number % 2) as usize];
        device.io(op, number / 2 * self.page + within, len, data)
    }
}

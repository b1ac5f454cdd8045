//! RAID-5 as a device. A write returns its memory as slices.

use super::array::Raid5;
use super::cut::{Payload, Source, slices_of};
use crate::device::{
    ArrayFuture, Device, DeviceIo, DirtyRanges, Known, Redundancy, RepairOutcome, allows, at_once,
    span,
};
use std::ops::Range;
use tonearm_rt::{Data, IoError, Op};

impl Device for Raid5 {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.stripes.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        let len = span(op, len, &data);
        if !allows(self, op, offset, len) || (op == Op::Read && matches!(data, Data::Slices(_))) {
            return at_once(Err(IoError::EINVAL), data);
        }
        let array = self.clone();
        match op {
            Op::Read => Box::pin(self.rt.spawn(array.read_range(offset, len, data))),
            Op::Flush => {
                let flush = self.rt.spawn(async move { array.flush().await });
                Box::pin(async move { (flush.await.map(|()| 0), data) })
            }
            Op::Punch | Op::Zero => {
                let change = array.change(offset, len, Source::Zeroes(op), false);
                let change = self.rt.spawn(change);
                Box::pin(async move { (change.await.map(|()| 0), data) })
            }
            _ => {
                let slices = slices_of(data);
                let source = Source::from(Payload::Bytes(slices.clone()));
                let durable = op == Op::WriteDurable;
                let change = self.rt.spawn(array.change(offset, len, source, durable));
                Box::pin(async move {
                    let result = change.await.map(|()| len as usize);
                    (result, Data::Slices(slices))
                })
            }
        }
    }

    fn redundancy(&self) -> Option<&dyn Redundancy> {
        Some(self)
    }
}

impl Redundancy for Raid5 {
    fn is_suspect(&self) -> bool {
        Raid5::is_suspect(self)
    }

    fn stripe_bytes(&self) -> Option<u64> {
        Some(self.stripes().row_bytes())
    }

    fn recover(&self, interrupted: DirtyRanges) -> ArrayFuture<()> {
        Box::pin(self.rt.spawn(self.clone().recover_from(interrupted)))
    }

    fn compare(&self, range: Range<u64>) -> ArrayFuture<Vec<Range<u64>>> {
        Box::pin(self.rt.spawn(self.clone().differing(range)))
    }

    fn repair(&self, known: Vec<Known>, stripes: Range<u64>) -> ArrayFuture<RepairOutcome> {
        Box::pin(self.rt.spawn(self.clone().repair_known(known, stripes)))
    }
}

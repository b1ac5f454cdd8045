//! A volume of a store as a device, for programs that take devices.

use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::{Device, DeviceIo, at_once};
use tonearm_disk::{DiskError, Volume};
use tonearm_rt::{Data, IoError, Op, Rt};

/// Bytes from `start` on of a volume.
pub struct VolumeDevice {
    rt: Rt,
    volume: Rc<Volume>,
    start: u64,
    size_bytes: u64,
    memory: BufPool,
}

impl VolumeDevice {
    /// `size_bytes` bytes of `volume` from `start` on.
    pub fn new(rt: &Rt, volume: Rc<Volume>, start: u64, size_bytes: u64) -> Self {
        Self {
            rt: rt.clone(),
            volume,
            start,
            size_bytes,
            memory: BufPool::new(4 << 20),
        }
    }
}

impl Device for VolumeDevice {
    fn name(&self) -> &str {
        "a volume"
    }

    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn io(&self, op: Op, offset: u64, _: u64, data: Data) -> DeviceIo {
        let (volume, at) = (self.volume.clone(), self.start + offset);
        let bytes = data.len();
        let ended = move |result: Result<(), DiskError>| {
            result.map(|()| bytes).map_err(|_| IoError::EINVAL)
        };
        match (op, data) {
            (Op::Read, Data::Buf(mut buf, range)) => Box::pin(self.rt.spawn(async move {
                let pieces = volume.read(at, bytes as u64).await;
                let Ok(pieces) = pieces else {
                    return (Err(IoError::EINVAL), Data::Buf(buf, range));
                };
                let mut filled = range.start;
                for piece in pieces {
                    piece.copy_to(&mut buf[filled..filled + piece.len()]);
                    filled += piece.len();
                }
                (Ok(bytes), Data::Buf(buf, range))
            })),
            (Op::Write | Op::WriteDurable, Data::Buf(buf, range)) => {
                let copy = self.memory.copy_of(&buf[range.clone()]).share();
                Box::pin(self.rt.spawn(async move {
                    let written = volume.write(at, copy, op == Op::WriteDurable).await;
                    (ended(written), Data::Buf(buf, range))
                }))
            }
            (Op::Flush, data) => Box::pin(
                self.rt
                    .spawn(async move { (ended(volume.flush().await), data) }),
            ),
            (_, data) => at_once(Err(IoError::EINVAL), data),
        }
    }
}

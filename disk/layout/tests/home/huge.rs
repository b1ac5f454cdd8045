//! Stores of many tebibytes, on a device that counts operations and stores nothing.

use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::{Device, DeviceIo};
use tonearm_format::{Geometry, HEADER_AREA_BYTES};
use tonearm_layout::{Home, Overwrite, OverwriteMember, ZeroRange};
use tonearm_rt::{Data, Op, Rt};
use tonearm_world::{SimOptions, SimWorld};

#[derive(Clone, Default)]
struct Empty(Rc<RefCell<Vec<(Op, u64, u64)>>>);

impl Device for Empty {
    fn name(&self) -> &str {
        "empty"
    }

    fn size_bytes(&self) -> u64 {
        u64::MAX
    }

    fn io(&self, op: Op, offset: u64, len: u64, mut data: Data) -> DeviceIo {
        self.0.borrow_mut().push((op, offset, len));
        let moved = data.len();
        if let (Op::Read, Data::Buf(buf, range)) = (op, &mut data) {
            buf[range.clone()].fill(0);
        }
        Box::pin(std::future::ready((Ok(moved), data)))
    }
}

#[test]
fn sixteen_tebibytes_are_trimmed_with_a_handful_of_operations() {
    let rt = Rt::new(SimWorld::new(SimOptions::default(), Vec::new()).driver());
    let device = Empty::default();
    let geometry = Geometry {
        block_size: 4096,
        data_offset: HEADER_AREA_BYTES,
        groups: (8 << 40) / (1018 * 4096),
    };
    let members = (0..2).map(|_| OverwriteMember {
        device: Rc::new(device.clone()),
        geometry,
    });
    let size = 2 * geometry.blocks();
    let home = Overwrite::new(&rt, &BufPool::new(0), members.collect(), size, 1 << 20, 8);
    assert!(device.0.borrow().is_empty(), "a new home costs nothing");
    let used = home.clone();
    rt.block_on(async move {
        for keep_space in [false, true] {
            let all = ZeroRange {
                first: 5,
                count: size - 10,
                keep_space,
            };
            used.write_back(vec![all], Vec::new()).await.unwrap();
        }
    });
    let ops = device.0.borrow();
    let zeroes = |op| ops.iter().filter(|seen| seen.0 == op).count();
    // On each member a run of whole groups and a part at the store's end.
    assert_eq!((zeroes(Op::Punch), zeroes(Op::Zero)), (4, 4));
    assert_eq!(zeroes(Op::Write), 0);
    assert!(ops.len() < 20, "{} operations", ops.len());
    assert!(home.stats().map_cache_bytes <= 1 << 20);
}

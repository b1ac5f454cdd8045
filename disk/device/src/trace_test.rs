use crate::{Device, RawDevice, Trace, TraceLog};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_rt::{Data, DeviceId, Op, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

/// A short run; `change` alters one byte written.
fn run(seed: u64, change: u8, log: &TraceLog) {
    let options = SimOptions {
        seed,
        ..SimOptions::default()
    };
    let world = SimWorld::new(options, vec![DiskImage::new(1 << 20); 2]);
    let rt = Rt::new(world.driver());
    let devices: Vec<Rc<dyn Device>> = (0..2)
        .map(|i| {
            let raw = RawDevice::new(&rt, DeviceId(i), 1 << 20, 1, "sim");
            Rc::new(Trace::new(&rt, Rc::new(raw), log)) as Rc<dyn Device>
        })
        .collect();
    rt.block_on(async move {
        let mut buf = BufPool::new(0).alloc_zeroed(4096);
        buf[77] = change;
        let shared = buf.share();
        let writes: Vec<_> = (0..20u64)
            .map(|i| {
                let data = Data::Slices(vec![shared.clone()]);
                devices[i as usize % 2].write(i * 4096, data)
            })
            .collect();
        for write in writes {
            write.await.unwrap();
        }
        devices[0].flush().await.unwrap();
        let read = devices[0].read(0, BufPool::new(0).alloc(4096)).await;
        assert_eq!(read.unwrap()[77], change);
    });
}

#[test]
fn equal_runs_have_equal_hashes_and_others_do_not() {
    let hash = |seed, change| {
        let log = TraceLog::hashing();
        run(seed, change, &log);
        assert!(log.events().is_empty());
        log.hash()
    };
    assert_eq!(hash(1, 0), hash(1, 0));
    assert_ne!(hash(1, 0), hash(2, 0), "other times");
    assert_ne!(hash(1, 0), hash(1, 1), "another byte");
}

#[test]
fn events_are_kept_in_order_with_their_device() {
    let log = TraceLog::keeping();
    run(1, 0, &log);
    let events = log.events();
    assert_eq!(events.len() as u64, log.count());
    assert_eq!(events.len(), 2 * 22);
    assert!(events.is_sorted_by_key(|event| event.at));
    assert_eq!((events[1].device, events[1].offset), (1, 4096));
    let last = events.last().unwrap();
    assert_eq!((last.op, last.end), (Op::Read, Some(Ok(4096))));
    assert_eq!(last.crc, tonearm_base::crc32c(&[0; 4096]));
}

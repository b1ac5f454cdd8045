//! A virtual machine with a disk in a simulated store, and requests that it can send.

use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::RawDevice;
use tonearm_disk::{
    CreateParams, Disk, MemberDevice, MemberSpace, NewMember, OpenOptions, create, plan_create,
};
use tonearm_format::SECTOR;
use tonearm_rt::{DeviceId, Rt};
use tonearm_vhost::fuzzing::Machine;
use tonearm_world::{DiskImage, SimOptions, SimWorld};

const VOLUME_BYTES: u64 = 1 << 20;

/// A machine with a disk of 1 MiB.
///
/// # Panics
/// When the store cannot be made.
pub fn machine() -> Machine {
    let params = CreateParams {
        log_bytes: Some(4 << 20),
        track_bytes: Some(64 << 10),
        ..CreateParams::new(4 * VOLUME_BYTES, *b"simulated store!")
    };
    let plan = plan_create(&params, &[MemberSpace::alone([1; 16])]).expect("a plan");
    let bytes = plan.member_bytes[0];
    let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(bytes)]);
    let rt = Rt::new(world.driver());
    let pool = BufPool::new(1 << 20);
    let (own, buffers) = (rt.clone(), pool.clone());
    let volume = rt.block_on(async move {
        let device = Rc::new(RawDevice::new(
            &own,
            DeviceId(0),
            bytes,
            SECTOR as u32,
            "member",
        ));
        let member = NewMember::blank(device.clone());
        let made = create(
            &own,
            &buffers,
            &plan,
            vec![member],
            VOLUME_BYTES,
            [2; 16],
            |_, _| {},
        );
        made.await.expect("a store");
        let member = MemberDevice::new(device);
        let options = OpenOptions::default();
        let disk = Disk::open(&own, &buffers, vec![member], options, |_| {}).await;
        disk.expect("open").volume("main").expect("a volume")
    });
    // The drive is simulated as long as the machine lives.
    std::mem::forget(world);
    Machine::new(&rt, &pool, volume)
}

/// Memories of a guest with one request of each kind, with and without a table elsewhere.
pub fn memories() -> Vec<Vec<u8>> {
    const NEXT: u16 = 1;
    const WRITE: u16 = 2;
    const INDIRECT: u16 = 4;
    let descriptor = |at: u64, bytes: u32, flags: u16, next: u16| {
        let mut raw = at.to_le_bytes().to_vec();
        raw.extend(bytes.to_le_bytes());
        raw.extend(flags.to_le_bytes());
        raw.extend(next.to_le_bytes());
        raw
    };
    let mut seeds = Vec::new();
    for (kind, bytes, is_read) in [
        (0u32, 1024u32, true),
        (1, 1024, false),
        (4, 0, false),
        (8, 20, true),
        (11, 16, false),
        (13, 32, false),
    ] {
        for elsewhere in [false, true] {
            // Tables at 0 and 0x100, the header at 0x200, the status at 0x210, data at 0x400.
            let table = match elsewhere {
                true => 0x100,
                false => 0,
            };
            let mut memory = vec![0; 0x400];
            let mut put = |at: usize, raw: &[u8]| memory[at..at + raw.len()].copy_from_slice(raw);
            if elsewhere {
                put(0, &descriptor(0x100, 48, INDIRECT, 0));
            }
            put(
                table,
                &descriptor(0x200, 16, NEXT, if bytes > 0 { 1 } else { 2 }),
            );
            let flags = NEXT | if is_read { WRITE } else { 0 };
            put(table + 16, &descriptor(0x400, bytes, flags, 2));
            put(table + 32, &descriptor(0x210, 1, WRITE, 0));
            put(0x200, &kind.to_le_bytes());
            put(0x208, &8u64.to_le_bytes());
            // Ranges of a discard or of zeroes: sector 8, 8 sectors, no flags.
            memory.extend(8u64.to_le_bytes());
            memory.extend(8u32.to_le_bytes());
            memory.extend([0; 4]);
            memory.extend((0..1008u32).map(|at| at as u8));
            seeds.push(memory);
        }
    }
    seeds
}

//! The transmission phase over the real disk, on simulated devices: clients, crash, resize, deletion.

use crate::common::pattern;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::RawDevice;
use tonearm_disk::{
    CreateParams, CreatePlan, Disk, HomeParams, MemberDevice, MemberSpace, NewMember, OpenOptions,
    create, plan_create,
};
use tonearm_format::Placement;
use tonearm_nbd::proto::*;
use tonearm_nbd::transmission::testing::{Streams, TestClient, client_of};
use tonearm_nbd::transmission::{Connections, TransmissionOptions};
use tonearm_rt::IoError;
use tonearm_rt::{DeviceId, Op, Rt};
use tonearm_world::{DiskImage, Fault, FaultKind, Place, SimOptions, SimWorld};

const SIZE: u64 = 16 << 20;

struct Store {
    world: SimWorld,
    streams: Streams,
    rt: Rt,
    pool: BufPool,
}

impl Store {
    fn on(images: Vec<DiskImage>) -> Self {
        let world = SimWorld::new(SimOptions::default(), images);
        let streams = Streams::default();
        let rt = Rt::new(streams.driver(world.driver()));
        Self {
            world,
            streams,
            rt,
            pool: BufPool::new(16 << 20),
        }
    }

    fn device(rt: &Rt, bytes: u64) -> Rc<dyn tonearm_device::Device> {
        Rc::new(RawDevice::new(rt, DeviceId(0), bytes, 512, "store"))
    }

    fn created() -> Self {
        Self::of(Self::planned(2 * SIZE, 8 << 20, HomeParams::default()))
    }

    /// A store whose segments would hold all blocks of `main`, with none to spare.
    fn short_of_segments() -> Self {
        let home = HomeParams::Segments {
            segment_bytes: 64 << 10,
            spare_percent: 5,
            placement: Placement::Append,
        };
        // The log holds less than what has no room at home.
        let mut plan = Self::planned(SIZE, 2 << 20, home);
        if let Some(layout) = plan.superblock.segments() {
            let blocks = plan.superblock.size_blocks;
            plan.superblock.members[0].groups = blocks.div_ceil(layout.payload_blocks());
        }
        Self::of(plan)
    }

    fn planned(size_bytes: u64, log_bytes: u64, home: HomeParams) -> CreatePlan {
        let params = CreateParams {
            log_bytes: Some(log_bytes),
            home,
            ..CreateParams::new(size_bytes, [1; 16])
        };
        plan_create(&params, &[MemberSpace::alone([2; 16])]).expect("planned")
    }

    fn of(plan: CreatePlan) -> Self {
        let bytes = plan.member_bytes[0];
        let store = Self::on(vec![DiskImage::new(bytes)]);
        let (rt, pool) = (store.rt.clone(), store.pool.clone());
        store.rt.block_on(async move {
            let member = NewMember::blank(Self::device(&rt, bytes));
            create(&rt, &pool, &plan, vec![member], SIZE, [3; 16], |_, _| {})
                .await
                .expect("created");
        });
        store
    }

    /// Serves `main` to two clients while `test` runs.
    fn serve<F: Future<Output = ()> + 'static>(
        &self,
        test: impl FnOnce(Disk, Connections, TestClient, TestClient) -> F + 'static,
    ) {
        self.serve_with(OpenOptions::default(), test);
    }

    fn serve_with<F: Future<Output = ()> + 'static>(
        &self,
        options: OpenOptions,
        test: impl FnOnce(Disk, Connections, TestClient, TestClient) -> F + 'static,
    ) {
        let (rt, pool, streams) = (self.rt.clone(), self.pool.clone(), self.streams.clone());
        let bytes = self.world.images()[0].size;
        self.rt.block_on(async move {
            let member = MemberDevice {
                device: Self::device(&rt, bytes),
                path: "store".to_owned(),
            };
            let disk = Disk::open(&rt, &pool, vec![member], options, |_| {})
                .await
                .expect("opened");
            let connections = Connections::new(&rt, &pool, TransmissionOptions::default());
            let connect = || {
                let (server, stream) = streams.pair();
                let volume = disk.volume("main").expect("there");
                let id = connections.add(server, client_of(true), volume);
                TestClient::new((&rt, &pool), stream, id, true)
            };
            let (one, other) = (connect(), connect());
            test(disk.clone(), connections.clone(), one, other).await;
            connections.shutdown(Nanos::from_secs(1)).await;
        });
    }
}

async fn call(
    client: &mut TestClient,
    command: u16,
    offset: u64,
    len: u32,
    data: &[u8],
) -> Vec<u8> {
    call_with(client, (command, 0), offset, len, data).await
}

/// As [`call`], with flags of the command.
async fn call_with(
    client: &mut TestClient,
    (command, flags): (u16, u16),
    offset: u64,
    len: u32,
    data: &[u8],
) -> Vec<u8> {
    let request = client.request(command, flags, offset, len);
    let answer = client.call(request, data).await.expect("answered");
    assert_eq!(answer.error, None, "{}", answer.message);
    answer.data
}

#[test]
fn flush_covers_the_writes_of_all_connections() {
    let store = Store::created();
    store.serve(|_, _, mut one, mut other| async move {
        call(&mut one, CMD_WRITE, 8192, 8192, &pattern(1, 8192)).await;
        call(&mut one, CMD_WRITE, 100, 5000, &pattern(2, 5000)).await;
        call(&mut one, CMD_WRITE_ZEROES, 9000, 100, &[]).await;
        call(&mut one, CMD_WRITE, 1 << 20, 3 << 20, &pattern(3, 3 << 20)).await;
        // The other connection's flush covers them all.
        call(&mut other, CMD_FLUSH, 0, 0, &[]).await;
    });
    for seed in 0..8 {
        let after = Store::on(store.world.crash().images(seed));
        after.serve(|_, _, mut one, _| async move {
            let head = call(&mut one, CMD_READ, 0, 16_384, &[]).await;
            assert!(head[..100].iter().all(|byte| *byte == 0));
            assert!(head[100..5100] == pattern(2, 5000));
            let mut block = pattern(1, 8192);
            block[808..908].fill(0);
            assert!(head[8192..] == block);
            let large = call(&mut one, CMD_READ, 1 << 20, 3 << 20, &[]).await;
            assert!(large == pattern(3, 3 << 20));
        });
        after.rt.shut_down();
    }
    store.rt.shut_down();
}

#[test]
fn trims_and_zeroes_show_in_the_block_status() {
    let store = Store::created();
    store.serve(|_, _, mut one, mut other| async move {
        call(&mut one, CMD_WRITE, 0, 65_536, &pattern(4, 65_536)).await;
        call(&mut one, CMD_TRIM, 4096, 8192, &[]).await;
        call(&mut one, CMD_WRITE_ZEROES, 32_768, 1 << 23, &[]).await;
        call(&mut one, CMD_CACHE, 0, SIZE as u32, &[]).await;
        let request = other.request(CMD_BLOCK_STATUS, 0, 0, 65_536);
        let answer = other.call(request, &[]).await.expect("answered");
        let extents: Vec<_> = answer
            .extents
            .iter()
            .map(|extent| (extent.length, extent.flags))
            .collect();
        assert_eq!(extents, [(4096, 0), (8192, 3), (20_480, 0), (32_768, 3)]);
        let data = call(&mut other, CMD_READ, 0, 65_536, &[]).await;
        let mut model = pattern(4, 65_536);
        model[4096..12_288].fill(0);
        model[32_768..].fill(0);
        assert!(data == model);
    });
    store.rt.shut_down();
}

#[test]
fn a_volume_may_be_resized_and_deleted_under_its_clients() {
    let store = Store::created();
    store.serve(|disk, connections, mut one, mut other| async move {
        disk.resize_volume("main", SIZE + 4096).await.expect("more");
        call(&mut one, CMD_WRITE, SIZE, 4096, &pattern(5, 4096)).await;
        disk.resize_volume("main", 8192).await.expect("less");
        let request = one.request(CMD_READ, 0, 8192, 1);
        let answer = one.call(request, &[]).await.expect("answered");
        assert_eq!(answer.error, Some(NbdErrno::Inval));
        call(&mut one, CMD_READ, 0, 8192, &[]).await;
        disk.delete_volume("main").await.expect("deleted");
        let request = one.request(CMD_READ, 0, 0, 1);
        let answer = one.call(request, &[]).await.expect("answered");
        assert_eq!(answer.error, Some(NbdErrno::Shutdown));
        assert!(answer.message.contains("deleted"), "{}", answer.message);
        connections.stop_export("main");
        assert_eq!(other.answers().await, None);
    });
    store.rt.shut_down();
}

/// Each command that a client may call durable, as the last one before a power cut: whole blocks, and parts of blocks. It is there
/// after the cut, whatever the cache has lost.
#[test]
fn fua_change_survives_an_immediate_power_cut() {
    for (offset, len) in [(8192, 12_288), (5000, 9000), (8292, 100)] {
        for command in [
            (CMD_WRITE, CMD_FLAG_FUA),
            (CMD_TRIM, CMD_FLAG_FUA),
            (CMD_WRITE_ZEROES, CMD_FLAG_FUA),
            (CMD_WRITE_ZEROES, CMD_FLAG_FUA | CMD_FLAG_NO_HOLE),
            (CMD_WRITE_ZEROES, CMD_FLAG_FUA | CMD_FLAG_FAST_ZERO),
        ] {
            let store = Store::created();
            let world = store.world.clone();
            let cut = Rc::new(Cell::new(None));
            let taken = cut.clone();
            store.serve(move |_, _, mut one, _| async move {
                call(&mut one, CMD_WRITE, 0, 65_536, &pattern(1, 65_536)).await;
                call(&mut one, CMD_FLUSH, 0, 0, &[]).await;
                let data = match command.0 {
                    CMD_WRITE => pattern(2, len as usize),
                    _ => Vec::new(),
                };
                call_with(&mut one, command, offset, len, &data).await;
                taken.set(Some(world.crash()));
            });
            let mut expected = pattern(1, 65_536);
            let (from, to) = (offset as usize, offset as usize + len as usize);
            match command.0 {
                CMD_WRITE => expected[from..to].copy_from_slice(&pattern(2, len as usize)),
                // Only whole blocks are given back.
                CMD_TRIM => {
                    let (first, end) = (from.next_multiple_of(4096), to / 4096 * 4096);
                    expected[first.min(end)..end].fill(0);
                }
                _ => expected[from..to].fill(0),
            }
            let crash = cut.take().expect("the client was answered");
            for seed in 0..6 {
                let after = Store::on(crash.images(seed));
                let expected = expected.clone();
                after.serve(move |_, _, mut one, _| async move {
                    let found = call(&mut one, CMD_READ, 0, 65_536, &[]).await;
                    assert!(found == expected, "{command:?} at {offset}, image {seed}");
                });
                after.rt.shut_down();
            }
            store.rt.shut_down();
        }
    }
}

/// NO_HOLE leaves the space of whole blocks allocated on the medium; without it the space is given back. Neither makes the
/// answer wait for the drive.
#[test]
fn zeroes_keep_their_space_only_with_no_hole() {
    for (flags, keeps) in [(0, false), (CMD_FLAG_NO_HOLE, true)] {
        let store = Store::created();
        let zeroed: Rc<Cell<(u64, u64)>> = Rc::default();
        let (world, seen) = (store.world.clone(), zeroed.clone());
        store.serve(move |disk, _, mut one, _| async move {
            call(&mut one, CMD_WRITE, 0, 65_536, &pattern(1, 65_536)).await;
            disk.engine().drain().await.expect("at home");
            world.set_fault(move |request| {
                let (punched, kept) = seen.get();
                match request.op {
                    Op::Punch => seen.set((punched + request.len, kept)),
                    Op::Zero => seen.set((punched, kept + request.len)),
                    _ => {}
                }
                None
            });
            let before = disk.engine().stats();
            call_with(&mut one, (CMD_WRITE_ZEROES, flags), 0, 65_536, &[]).await;
            let after = disk.engine().stats();
            let durable = |stats: &tonearm_disk::StoreStats| stats.log_flushes;
            assert_eq!(durable(&before), durable(&after), "no flush was asked for");
            disk.engine().drain().await.expect("at home");
        });
        let (punched, kept) = zeroed.get();
        let expected = if keeps { (0, 65_536) } else { (65_536, 0) };
        assert_eq!((punched, kept), expected, "flags {flags}");
        store.rt.shut_down();
    }
}

/// A full store answers each kind of write with ENOSPC, whether memory or the log was used up first. Nothing that was answered is
/// lost, reads, flushes and trims go on, and a trim makes room for writes.
#[test]
fn writes_to_a_full_store_are_answered_with_enospc() {
    const STEP: usize = 64 << 10;
    for memory_bytes in [256 << 10, 64 << 20] {
        let store = Store::short_of_segments();
        let options = OpenOptions {
            memory_bytes,
            ..OpenOptions::default()
        };
        store.serve_with(options, |disk, _, mut one, mut other| async move {
            let all = SIZE + disk.free_bytes() / STEP as u64 * STEP as u64;
            disk.resize_volume("main", all).await.expect("all of it");
            let mut seeds = BTreeMap::new();
            let places = (0..all).step_by(STEP).cycle();
            let mut refused = None;
            for (next, at) in (1..2000).zip(places) {
                let request = one.request(CMD_WRITE, 0, at, STEP as u32);
                let answer = one.call(request, &pattern(next, STEP)).await;
                let answer = answer.expect("answered");
                if answer.error.is_some() {
                    refused = Some((at, answer));
                    break;
                }
                seeds.insert(at, next);
            }
            let (place, refused) = refused.expect("it becomes full");
            assert_eq!(refused.error, Some(NbdErrno::NoSpc), "{}", refused.message);
            assert!(refused.message.contains("full"), "{}", refused.message);
            // Each further one too, on any connection: durable, and parts of blocks.
            for (flags, at, len) in [(CMD_FLAG_FUA, 0, STEP), (0, 8, 1000), (0, 4096, 4096)] {
                let request = other.request(CMD_WRITE, flags, place + at, len as u32);
                let answer = other.call(request, &pattern(1, len)).await;
                let answer = answer.expect("answered");
                assert_eq!(answer.error, Some(NbdErrno::NoSpc), "{}", answer.message);
            }
            call(&mut other, CMD_FLUSH, 0, 0, &[]).await;
            for (at, seed) in seeds {
                let found = call(&mut one, CMD_READ, at, STEP as u32, &[]).await;
                assert!(found == pattern(seed, STEP), "at {at}");
            }
            call(&mut one, CMD_TRIM, 0, (all / 2) as u32, &[]).await;
            disk.engine().drain().await.expect("there is room now");
            call(&mut one, CMD_WRITE, 0, STEP as u32, &pattern(2, STEP)).await;
            let found = call(&mut one, CMD_READ, 0, STEP as u32, &[]).await;
            assert!(found == pattern(2, STEP));
        });
        store.rt.shut_down();
    }
}

/// The volume becomes read-only when a write has been admitted and its payload is under way.
#[test]
fn changes_of_a_read_only_volume_are_answered_with_eperm() {
    let store = Store::created();
    let rt = store.rt.clone();
    store.serve(|disk, _, mut one, _other| async move {
        let late = one.request(CMD_WRITE, 0, 0, 4096);
        assert!(one.send(&late.encode()).await);
        rt.sleep(Nanos::from_millis(1)).await;
        disk.set_read_only("main", true).await.expect("changed");
        assert!(one.send(&pattern(1, 4096)).await);
        let answer = one.answers().await.expect("answered").remove(0);
        assert_eq!(answer.error, Some(NbdErrno::Perm), "{}", answer.message);
        for (command, data) in [
            (CMD_WRITE, pattern(2, 4096)),
            (CMD_TRIM, Vec::new()),
            (CMD_WRITE_ZEROES, Vec::new()),
        ] {
            let request = one.request(command, 0, 0, 4096);
            let answer = one.call(request, &data).await.expect("answered");
            assert_eq!(answer.error, Some(NbdErrno::Perm), "{}", answer.message);
        }
        let found = call(&mut one, CMD_READ, 0, 4096, &[]).await;
        assert!(found == [0; 4096], "no change has had an effect");
        disk.set_read_only("main", false).await.expect("changed");
        call(&mut one, CMD_WRITE, 0, 4096, &pattern(3, 4096)).await;
    });
    store.rt.shut_down();
}

#[test]
fn damage_and_a_failed_log_are_answered_with_eio() {
    let store = Store::created();
    let world = store.world.clone();
    store.serve(|disk, _, mut one, _other| async move {
        let content = pattern(1, 8192);
        call(&mut one, CMD_WRITE, 0, 8192, &content).await;
        disk.engine().drain().await.expect("there is room");
        let image = world.images().remove(0);
        let at_home = image.used_pages().into_iter().find(|page| {
            let mut bytes = [0; 4096];
            image.read(*page, &mut bytes);
            bytes == content[..4096]
        });
        world.strike(Fault {
            drive: 0,
            after: 0,
            kind: FaultKind::BitRot,
            place: Place::At(at_home.expect("the block is at home")),
            span: Nanos(0),
            times: 1,
        });
        let request = one.request(CMD_READ, 0, 0, 8192);
        let answer = one.call(request, &[]).await.expect("answered");
        assert_eq!(answer.error, Some(NbdErrno::Io), "{}", answer.message);
        assert!(call(&mut one, CMD_READ, 4096, 4096, &[]).await == content[4096..]);
        world.set_fault(|request| (request.op != Op::Read).then_some(IoError::EIO));
        for cleared in [false, true] {
            for (command, data) in [
                (CMD_WRITE, content.clone()),
                (CMD_TRIM, Vec::new()),
                (CMD_WRITE_ZEROES, Vec::new()),
                (CMD_FLUSH, Vec::new()),
            ] {
                let (flags, bytes) = match command {
                    CMD_FLUSH => (0, 0),
                    _ => (CMD_FLAG_FUA, 8192),
                };
                let request = one.request(command, flags, 0, bytes);
                let answer = one.call(request, &data).await.expect("answered");
                let case = format!("{command}, {cleared}: {}", answer.message);
                assert_eq!(answer.error, Some(NbdErrno::Io), "{case}");
            }
            world.clear_fault();
        }
    });
    store.rt.shut_down();
}

//! The effect of each kind of fault, alone.

use crate::{
    Budget, DiskImage, Done, DriveRequest, Fault, FaultKind, Place, SimDisk, SimOptions, SimWorld,
    Timing, Zeroing,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tonearm_base::{BufPool, Nanos};
use tonearm_rt::{Data, DeviceId, IoError, Op, Request, Rt};

const SIZE: u64 = 1 << 20;

/// A world of one drive with plain synchronous operations.
struct Bench {
    world: SimWorld,
    rt: Rt,
}

fn bench() -> Bench {
    let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(SIZE)]);
    let rt = Rt::new(world.driver());
    Bench { world, rt }
}

fn fault(kind: FaultKind, place: Place) -> Fault {
    Fault {
        drive: 0,
        after: 0,
        kind,
        place,
        span: Nanos(0),
        times: 1,
    }
}

impl Bench {
    fn io(&self, op: Op, offset: u64, data: Data) -> Result<Data, IoError> {
        let request = Request {
            device: DeviceId(0),
            op,
            offset,
            len: 0,
            data,
        };
        let rt = self.rt.clone();
        let (result, data) = self.rt.block_on(async move { rt.io(request).await });
        result.map(|_| data)
    }

    fn write(&self, offset: u64, byte: u8) -> Result<(), IoError> {
        let data = Data::whole(BufPool::new(0).copy_of(&[byte; 4096]));
        self.io(Op::Write, offset, data).map(|_| ())
    }

    fn read(&self, offset: u64) -> Result<u8, IoError> {
        let data = Data::whole(BufPool::new(0).alloc(4096));
        let buf = self.io(Op::Read, offset, data)?.into_buf();
        assert!(buf.iter().all(|byte| *byte == buf[0]), "a mixed page");
        Ok(buf[0])
    }

    fn flush(&self) -> Result<(), IoError> {
        self.io(Op::Flush, 0, Data::None).map(|_| ())
    }

    /// The page at `offset` after the worst power cuts: what may be found there.
    fn after_cuts(&self, offset: u64) -> Vec<u8> {
        let crash = self.world.crash();
        let mut found = Vec::new();
        for seed in 0..100 {
            let mut page = [0; 4096];
            crash.images(seed)[0].read(offset, &mut page);
            found.push(page[0]);
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[test]
fn latent_error_lasts_until_rewrite_across_restarts() {
    let b = bench();
    b.write(8192, 1).unwrap();
    b.world
        .strike(fault(FaultKind::LatentError, Place::Used(5)));
    assert_eq!(b.read(8192), Err(IoError::EIO));
    assert_eq!(b.read(0), Ok(0));
    let next = SimWorld::new(SimOptions::default(), b.world.images());
    let next = Bench {
        rt: Rt::new(next.driver()),
        world: next,
    };
    assert_eq!(next.read(8192), Err(IoError::EIO));
    next.write(8192, 2).unwrap();
    assert_eq!(next.read(8192), Ok(2));
}

#[test]
fn bit_rot_inverts_one_bit_of_the_medium() {
    let b = bench();
    b.write(0, 0).unwrap();
    b.write(4096, 7).unwrap();
    b.flush().unwrap();
    b.world.strike(fault(FaultKind::BitRot, Place::At(4099)));
    let mut page = [0; 4096];
    b.world.images()[0].read(4096, &mut page);
    let changed: Vec<usize> = (0..4096).filter(|at| page[*at] != 7).collect();
    assert_eq!(changed, [3]);
    assert_eq!((page[3] ^ 7).count_ones(), 1);
    // The content of the cache is not on the medium yet, and hides the flipped bit.
    b.write(4096, 9).unwrap();
    b.world.strike(fault(FaultKind::BitRot, Place::At(4100)));
    assert_eq!(b.read(4096), Ok(9));
}

#[test]
fn lost_write_reports_success_and_keeps_old_content() {
    let b = bench();
    b.write(0, 1).unwrap();
    b.world.strike(fault(FaultKind::LostWrite, Place::At(0)));
    b.write(0, 2).unwrap();
    assert_eq!(b.read(0), Ok(1));
    b.write(0, 3).unwrap();
    assert_eq!(b.read(0), Ok(3), "it strikes once");
    assert_eq!(b.world.struck().len(), 1);
}

#[test]
fn a_misdirected_write_goes_elsewhere() {
    let b = bench();
    b.write(0, 1).unwrap();
    b.world
        .strike(fault(FaultKind::MisdirectedWrite, Place::At(40960)));
    b.write(0, 2).unwrap();
    assert_eq!((b.read(0), b.read(40960)), (Ok(1), Ok(2)));
}

#[test]
fn a_misdirected_read_returns_another_place_once() {
    let b = bench();
    b.write(40960, 2).unwrap();
    b.world
        .strike(fault(FaultKind::MisdirectedRead, Place::At(40960)));
    assert_eq!(b.read(0), Ok(2));
    assert_eq!(b.read(0), Ok(0));
}

#[test]
fn a_stale_read_ignores_the_cache() {
    let b = bench();
    b.write(0, 1).unwrap();
    b.flush().unwrap();
    b.write(0, 2).unwrap();
    b.world.strike(fault(FaultKind::StaleRead, Place::At(0)));
    assert_eq!(b.read(0), Ok(1));
    assert_eq!(b.read(0), Ok(2));
}

#[test]
fn a_stuck_drive_completes_its_requests_when_it_recovers() {
    let b = bench();
    let stuck = Fault {
        span: Nanos::from_millis(500),
        ..fault(FaultKind::Stuck, Place::At(0))
    };
    b.world.strike(stuck);
    b.write(0, 1).unwrap();
    assert_eq!(b.world.now(), Nanos::from_millis(500));
    b.write(0, 2).unwrap();
    assert!(b.world.now() < Nanos::from_millis(501));
}

#[test]
#[should_panic(expected = "a drive is stuck for ever")]
fn stuck_drive_is_distinguished_from_a_slow_one() {
    let b = bench();
    b.world.strike(fault(FaultKind::Stuck, Place::At(0)));
    let _ = b.write(0, 1);
}

#[test]
fn a_slow_drive_takes_so_many_times_as_long() {
    let options = SimOptions {
        jitter: Nanos(0),
        ..SimOptions::default()
    };
    let world = SimWorld::new(options, vec![DiskImage::new(SIZE)]);
    let b = Bench {
        rt: Rt::new(world.driver()),
        world,
    };
    b.write(0, 1).unwrap();
    let usual = b.world.now();
    let slow = Fault {
        times: 7,
        ..fault(FaultKind::Slow, Place::At(0))
    };
    b.world.strike(slow);
    b.write(0, 1).unwrap();
    assert_eq!(b.world.now().since(usual), Nanos(usual.0 * 7));
    b.world.heal();
    b.write(0, 1).unwrap();
    assert_eq!(b.world.now(), Nanos(usual.0 * 9));
}

#[test]
fn writes_of_a_failed_flush_are_uncertain_until_rewritten() {
    let b = bench();
    b.write(0, 1).unwrap();
    b.world.strike(fault(FaultKind::FailedFlush, Place::At(0)));
    assert_eq!(b.flush(), Err(IoError::EIO));
    b.flush().unwrap();
    assert_eq!(b.read(0), Ok(1));
    let found = b.after_cuts(0);
    assert!(found.contains(&0) && found.contains(&1), "{found:?}");
    b.write(0, 5).unwrap();
    b.flush().unwrap();
    assert_eq!(b.after_cuts(0), [5]);
}

#[test]
fn a_false_flush_saves_nothing_and_the_next_real_one_does() {
    let b = bench();
    b.write(0, 1).unwrap();
    b.world.strike(fault(FaultKind::LyingFlush, Place::At(0)));
    b.flush().unwrap();
    assert!(b.after_cuts(0).contains(&0));
    b.flush().unwrap();
    assert_eq!(b.after_cuts(0), [1]);
}

#[test]
fn a_full_drive_refuses_whole_writes_and_still_reads() {
    let b = bench();
    b.write(0, 1).unwrap();
    b.flush().unwrap();
    b.world.strike(fault(FaultKind::Full, Place::At(0)));
    // In general a failed write leaves a random part, but for lack of space it never leaves any.
    for byte in 2..30 {
        assert_eq!(b.write(0, byte), Err(IoError::ENOSPC));
        assert_eq!(b.read(0), Ok(1));
    }
    assert_eq!(b.after_cuts(0), [1]);
    b.world.heal();
    b.write(0, 2).unwrap();
}

#[test]
fn failed_drive_keeps_any_subset_of_its_writes() {
    let mut found = Vec::new();
    for seed in 0..40 {
        let options = SimOptions {
            seed,
            ..SimOptions::default()
        };
        let world = SimWorld::new(options, vec![DiskImage::new(SIZE)]);
        let b = Bench {
            rt: Rt::new(world.driver()),
            world,
        };
        b.write(0, 1).unwrap();
        b.flush().unwrap();
        b.world.strike(fault(FaultKind::Failed, Place::At(0)));
        assert_eq!(b.write(0, 2), Err(IoError::EIO));
        assert_eq!(b.flush(), Err(IoError::EIO));
        assert_eq!(b.read(0), Err(IoError::EIO));
        b.world.heal();
        b.flush().unwrap();
        found.extend(b.after_cuts(0));
    }
    assert!(found.contains(&1) && found.contains(&2));
}

#[test]
fn later_writes_hide_a_failed_write() {
    let b = bench();
    b.world
        .set_fault(|request| (request.op == Op::Write).then_some(IoError::EIO));
    for _ in 0..8 {
        assert_eq!(b.write(0, 2), Err(IoError::EIO));
    }
    b.world.clear_fault();
    b.write(0, 3).unwrap();
    b.flush().unwrap();
    assert_eq!(b.after_cuts(0), [3]);
    assert!(b.world.crash().is_settled());
}

#[test]
fn a_fua_write_hides_older_writes_in_the_cache() {
    let b = bench();
    b.write(0, 1).unwrap();
    let data = Data::whole(BufPool::new(0).copy_of(&[2; 512]));
    b.io(Op::WriteDurable, 0, data).unwrap();
    assert_eq!(b.after_cuts(0), [2]);
    b.flush().unwrap();
    assert_eq!(b.after_cuts(0), [2]);
    assert!(b.after_cuts(512).contains(&1));
}

/// A drive that takes one microsecond for everything.
#[derive(Default)]
struct Even(Vec<Done>);

impl Timing for Even {
    fn submit(&mut self, now: Nanos, request: DriveRequest) {
        let at = now + 1000;
        self.0.push(Done { id: request.id, at });
    }

    fn next(&self) -> Option<Nanos> {
        self.0.first().map(|done| done.at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        while self.next().is_some_and(|at| at <= now) {
            done.push(self.0.remove(0));
        }
    }
}

fn even(write_cache: bool, options: SimOptions) -> Bench {
    let disk = SimDisk {
        image: DiskImage::new(SIZE),
        timing: Box::<Even>::default(),
        write_cache,
        zeroing: Zeroing::Write,
    };
    let world = SimWorld::with_disks(options, vec![disk]);
    Bench {
        rt: Rt::new(world.driver()),
        world,
    }
}

#[test]
fn with_the_write_cache_off_a_completed_write_is_stable() {
    let b = even(false, SimOptions::default());
    b.write(0, 1).unwrap();
    assert!(b.world.crash().is_settled());
    let b = even(true, SimOptions::default());
    b.write(0, 1).unwrap();
    assert!(!b.world.crash().is_settled());
}

#[test]
fn requests_and_bytes_take_processor_time_of_the_host() {
    let options = SimOptions {
        cpu_per_request: Nanos(500),
        cpu_ps_per_byte: 250,
        ..SimOptions::default()
    };
    let b = even(true, options);
    b.write(0, 1).unwrap();
    assert_eq!(b.world.now(), Nanos(500 + 1024 + 1000));
    b.flush().unwrap();
    assert_eq!(b.world.now(), Nanos(500 + 1024 + 1000 + 500 + 1000));
}

#[test]
fn without_power_cuts_reads_see_the_same() {
    let options = SimOptions {
        power_cuts: false,
        ..SimOptions::default()
    };
    let b = even(true, options);
    b.write(0, 1).unwrap();
    b.write(4096, 2).unwrap();
    b.flush().unwrap();
    assert_eq!((b.read(0), b.read(4096)), (Ok(1), Ok(2)));
    assert!(b.world.crash().is_settled());
}

#[test]
fn planned_faults_begin_at_their_time_and_survive_as_text() {
    let budget = Budget {
        faults: 5,
        kinds: FaultKind::ALL.to_vec(),
        drives: 3,
        requests: 100,
    };
    let mut seen = 0;
    for seed in 0..50 {
        let draw = || budget.draw(&mut ChaCha8Rng::seed_from_u64(seed));
        let faults = draw();
        assert_eq!(faults, draw());
        assert!((1..=5).contains(&faults.len()));
        assert!(faults.is_sorted_by_key(|fault| fault.after));
        for fault in faults {
            let text = serde_json::to_string(&fault).unwrap();
            assert_eq!(serde_json::from_str::<Fault>(&text).unwrap(), fault);
            seen |= 1 << fault.kind as u32;
        }
    }
    assert_eq!(seen, (1 << 12) - 1, "every kind is drawn");
    let b = bench();
    b.world.plan(&[Fault {
        after: 3,
        ..fault(FaultKind::LostWrite, Place::At(0))
    }]);
    for byte in 1..=3 {
        b.write(0, byte).unwrap();
    }
    b.write(0, 4).unwrap();
    assert_eq!(b.read(0), Ok(3));
}

//! The drives of today against the figures that were published of them. Each file names its sources.

use std::ops::Range;
use tonearm_base::Nanos;
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::{DriveSpec, Scheduler, library};
use tonearm_world::{DriveRequest, Kind, Timing};

const MIB: u32 = 2_048;

fn drive_with(name: &str, options: &DriveOptions) -> Drive {
    let known = library().iter().find(|drive| drive.name == name).unwrap();
    Drive::new(&DriveSpec::parse(name, known.text).unwrap(), options)
}

/// Users that each wait for their last request.
struct Users {
    drive: Drive,
    now: Nanos,
    seed: u64,
}

impl Users {
    fn of(name: &str) -> Self {
        Self::with(name, &DriveOptions::default())
    }

    fn with(name: &str, options: &DriveOptions) -> Self {
        Self {
            drive: drive_with(name, options),
            now: Nanos(0),
            seed: 7,
        }
    }

    /// MiB a second of `count` requests of `sectors` sectors, one after the other from the first sector on.
    fn in_sequence(&mut self, kind: Kind, sectors: u32, count: u64) -> f64 {
        let length = u64::from(sectors);
        let requests: Vec<_> = (0..count)
            .map(|at| request(kind, false, at * length, sectors))
            .collect();
        (count * length) as f64 / f64::from(MIB) * 1e3 / self.takes(&requests)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 11) % bound
    }

    /// Requests a second of `depth` users at random places in `range`, of 4 KiB.
    fn random(&mut self, kind: Kind, range: Range<u64>, depth: u32, count: u32) -> f64 {
        let (mut sent, mut done, mut ended) = (0, Vec::new(), 0);
        let begun = self.now;
        while ended < count {
            while sent < ended + depth {
                let lba = range.start + 8 * self.below((range.end - range.start) / 8);
                let request = request(kind, true, lba, 8);
                self.drive.submit(
                    self.now,
                    DriveRequest {
                        id: sent.into(),
                        ..request
                    },
                );
                sent += 1;
            }
            self.now = self.drive.next().unwrap();
            self.drive.advance(self.now, &mut done);
            ended += done.len() as u32;
            done.clear();
        }
        f64::from(count) * 1e9 / (self.now.0 - begun.0) as f64
    }

    /// Sends requests, each when the one before is done. Returns the time, in ms.
    fn takes(&mut self, requests: &[DriveRequest]) -> f64 {
        let begun = self.now;
        for request in requests {
            self.drive.submit(self.now, *request);
            let mut done = Vec::new();
            while done.is_empty() {
                self.now = self.drive.next().unwrap();
                self.drive.advance(self.now, &mut done);
            }
        }
        (self.now.0 - begun.0) as f64 / 1e6
    }

    /// MiB a second of synchronous writes of `sectors` sectors at random places.
    fn synchronous(&mut self, sectors: u32, count: u32) -> f64 {
        let places = self.drive.sectors() / u64::from(sectors);
        let mut ms = 0.0;
        for _ in 0..count {
            let lba = self.below(places) * u64::from(sectors);
            ms += self.takes(&[request(Kind::Write, false, lba, sectors), FLUSH]);
        }
        f64::from(count) * f64::from(sectors) / f64::from(MIB) * 1e3 / ms
    }
}

fn request(kind: Kind, fua: bool, lba: u64, sectors: u32) -> DriveRequest {
    DriveRequest {
        id: 0,
        kind,
        fua: fua && kind == Kind::Write,
        lba,
        sectors,
    }
}

const FLUSH: DriveRequest = DriveRequest {
    id: 0,
    kind: Kind::Flush,
    fua: false,
    lba: 0,
    sectors: 0,
};

#[track_caller]
fn within(what: &str, ours: f64, published: f64, percent: f64) {
    println!("{what}: {ours:.3}, published {published}");
    let off = 100.0 * (ours / published - 1.0).abs();
    assert!(
        off <= percent,
        "{what}: {ours}, published {published}: {off:.1} % off"
    );
}

#[test]
fn exos_x18_has_its_random_and_sequential_reads() {
    let mut users = Users::of("sata8tb");
    let all = 0..users.drive.sectors();
    within(
        "16 in the queue",
        users.random(Kind::Read, all, 16, 4_000),
        170.0,
        4.0,
    );
    // 100 GB of the 14 TB of its sister, which has as many cylinders: 57 GB of 8 TB.
    let mut users = Users::of("sata8tb");
    let part = 0..111_600_000;
    within(
        "one at a time in 100 GB",
        users.random(Kind::Read, part, 1, 2_000),
        166.0,
        8.0,
    );
    let mut users = Users::of("sata8tb");
    let rate = 1.048_576 * users.in_sequence(Kind::Read, MIB, 500);
    within("MB/s at the outer edge", rate, 270.0, 3.0);
}

#[test]
fn a_queue_of_32_more_than_doubles_the_random_reads() {
    let rate = |scheduler, depth| {
        let options = DriveOptions {
            scheduler,
            ..DriveOptions::default()
        };
        let mut users = Users::with("sata8tb", &options);
        let all = 0..users.drive.sectors();
        users.random(Kind::Read, all, depth, 3_000)
    };
    let (fifo, ncq) = (rate(Some(Scheduler::Fcfs), 32), rate(None, 32));
    let gain = ncq / fifo;
    println!("{fifo:.1} in order, {ncq:.1} with the queue");
    assert!((2.2..3.2).contains(&gain), "{gain}");
    // More than 32 wait in the host, where the drive does not see them.
    let more = rate(None, 64) / ncq;
    assert!((0.98..1.02).contains(&more), "{more}");
}

#[test]
fn shingled_drive_falls_to_its_published_rates() {
    let mut users = Users::of("smr8tb");
    within("1 MiB, MiB/s", users.synchronous(MIB, 17_000), 47.0, 15.0);
    // At 17 GiB.
    users.synchronous(MIB, 400);
    let fallen = users.synchronous(MIB, 200);
    assert!(fallen < 4.0, "{fallen} MiB/s");
    // MiB of a write, and MiB/s once the band is full.
    for (mib, rate) in [(2, 4.0), (4, 8.0), (8, 13.0), (16, 20.0), (32, 30.0)] {
        let mut users = Users::of("smr8tb");
        users.synchronous(mib * MIB, 29 * 1024 / mib);
        let what = format!("{mib} MiB when full, MiB/s");
        within(&what, users.synchronous(mib * MIB, 150), rate, 15.0);
    }
}

#[test]
fn shingled_drive_takes_a_sequence_without_end() {
    let mut users = Users::of("smr8tb");
    let rate = users.in_sequence(Kind::Write, MIB, 60_000);
    within("sequential, MiB/s", rate, 190.0, 5.0);
}

#[test]
fn power_loss_protection_makes_a_flush_nearly_free() {
    let mut users = Users::of("nvme_plp");
    let plain = users.takes(&[request(Kind::Write, false, 0, 32)]);
    let fua = users.takes(&[request(Kind::Write, true, 0, 32)]);
    assert!((plain - fua).abs() < 1e-4, "{plain} and {fua} ms");
    // M. Callaghan: 12 to 58 us for 16 KiB and fsync.
    let durable = users.takes(&[request(Kind::Write, false, 0, 32), FLUSH]);
    assert!((0.012..0.058).contains(&durable), "{durable} ms");
    assert!(
        durable - plain < 0.012,
        "a flush takes {} ms",
        durable - plain
    );
    let all = 0..users.drive.sectors();
    within(
        "random reads",
        users.random(Kind::Read, all.clone(), 64, 50_000),
        540_000.0,
        3.0,
    );
    let one = Users::of("nvme_plp").random(Kind::Read, all, 1, 1_000);
    within("a read, us", 1e6 / one, 85.0, 3.0);
    // A flush waits for no write that is under way.
    let mut users = Users::of("nvme_plp");
    let large = request(Kind::Write, false, 0, 16 * MIB);
    users
        .drive
        .submit(Nanos(0), DriveRequest { id: 1, ..large });
    users.drive.submit(Nanos(0), FLUSH);
    assert!(users.drive.next().unwrap() < Nanos(20_000));
}

#[test]
fn without_power_loss_protection_a_flush_takes_over_a_millisecond() {
    let mut users = Users::of("nvme_consumer");
    let write = |fua| request(Kind::Write, fua, 0, 16);
    within(
        "8 KiB and fdatasync, ms",
        users.takes(&[write(false), FLUSH]),
        1.643,
        3.0,
    );
    within(
        "8 KiB with O_DSYNC, ms",
        users.takes(&[write(true)]),
        4.007,
        3.0,
    );
    let all = 0..users.drive.sectors();
    within(
        "random reads",
        users.random(Kind::Read, all, 128, 50_000),
        1_400_000.0,
        3.0,
    );
    let mut users = Users::of("nvme_consumer");
    within(
        "read, MiB/s",
        users.in_sequence(Kind::Read, 512 * MIB, 4),
        6_911.0,
        2.0,
    );
}

//! Replays of the measured requests on the simulated drive, in three ways.

use crate::follow::Follower;
use crate::requests::Request;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tonearm_base::Nanos;
use tonearm_drive::{ClosedLoop, Disk, Drive, DriveOptions};
use tonearm_drive_file::DriveSpec;
use tonearm_world::Kind;

/// Time at which the first request is issued.
const BEGIN: Nanos = Nanos(1_000_000);

fn user(spec: &DriveSpec) -> ClosedLoop {
    ClosedLoop::new(Drive::new(spec, &DriveOptions::default()))
}

/// Response time of a request. A write cache that is on takes writes.
fn serve(user: &mut ClosedLoop, request: &Request) -> Nanos {
    match request.kind {
        Kind::Write => user.write_cached(request.lba, request.sectors),
        kind => user.serve(kind, request.lba, request.sectors),
    }
}

fn disk(user: &mut ClosedLoop) -> &mut Disk {
    let disk = user.drive().disk();
    disk.expect("a drive that is fitted has an arm")
}

/// Times when each request is issued relative to the end of the previous simulated one, as `tonearm-lab drive validate`
/// does.
pub fn closed_loop(spec: &DriveSpec, requests: &[Request]) -> Vec<Nanos> {
    let mut user = user(spec);
    let time = |request: &Request| {
        user.think(request.think);
        serve(&mut user, request)
    };
    requests.iter().map(time).collect()
}

/// Times when each request is issued at its measured time with a random phase of the platter. This is one more sample
/// of the drive's distribution, drawn with `seed`.
pub fn random_phase(spec: &DriveSpec, requests: &[Request], seed: u64) -> Vec<Nanos> {
    let mut user = user(spec);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut at = BEGIN;
    let time = |request: &Request| {
        at.0 += request.think.0;
        disk(&mut user).turn(share(random.next_u64()));
        user.set_now(at);
        at.0 += request.response.0;
        serve(&mut user, request)
    };
    requests.iter().map(time).collect()
}

/// A number from 0 to 1.
pub fn share(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

/// Result of a replay with the phase followed.
pub struct Followed {
    /// Response times.
    pub times: Vec<Nanos>,
    /// How well the phase could be followed: 1 is perfect, about 0.2 means that the trace has not kept the phase.
    pub coherence: f64,
}

/// Times when each request is issued at its measured time, with the platter at the angle that the earlier requests
/// imply for the real one.
pub fn followed(spec: &DriveSpec, requests: &[Request]) -> Followed {
    let mut user = user(spec);
    let period = disk(&mut user).mechanism().rotation.period();
    let mut follower = Follower::new(period);
    let mut at = BEGIN;
    let time = |request: &Request| {
        at.0 += request.think.0;
        disk(&mut user).turn(follower.drift_until(at));
        user.set_now(at);
        let time = serve(&mut user, request);
        disk(&mut user).turn(follower.learn(request.response, time));
        at.0 += request.response.0;
        time
    };
    let times = requests.iter().map(time).collect();
    Followed {
        times,
        coherence: follower.coherence(),
    }
}

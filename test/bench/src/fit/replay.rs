//! Replays of the measured requests on the simulated drive, in three ways.

use crate::follow::Follower;
use crate::requests::Request;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tonearm_base::Nanos;
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveSpec;
use tonearm_world::{Done, DriveRequest, Timing};

/// Time at which the first request is issued.
const BEGIN: Nanos = Nanos(1_000_000);

/// A drive that serves one request at a time.
struct Server {
    drive: Drive,
    done: Vec<Done>,
}

impl Server {
    fn new(spec: &DriveSpec) -> Self {
        Self {
            drive: Drive::new(spec, &DriveOptions::default()),
            done: Vec::new(),
        }
    }

    /// Response time of a request issued at `at`.
    fn serve(&mut self, at: Nanos, request: &Request) -> Nanos {
        let Request {
            kind, lba, sectors, ..
        } = *request;
        let request = DriveRequest {
            id: 0,
            kind,
            fua: false,
            lba,
            sectors,
        };
        self.drive.submit(at, request);
        let end = self.drive.next().expect("a request is under way");
        self.drive.advance(end, &mut self.done);
        self.done.clear();
        Nanos(end.0 - at.0)
    }

    fn turn(&mut self, revolutions: f64) {
        self.disk().turn(revolutions);
    }

    fn disk(&mut self) -> &mut tonearm_drive::Disk {
        self.drive
            .disk()
            .expect("a drive that is fitted has an arm")
    }
}

/// Times when each request is issued relative to the end of the previous simulated one, as `tonearm-lab drive validate`
/// does.
pub fn closed_loop(spec: &DriveSpec, requests: &[Request]) -> Vec<Nanos> {
    let mut server = Server::new(spec);
    let mut now = Nanos(0);
    let serve = |request: &Request| {
        now.0 += request.think.0;
        let time = server.serve(now, request);
        now.0 += time.0;
        time
    };
    requests.iter().map(serve).collect()
}

/// Times when each request is issued at its measured time with a random phase of the platter. This is one more sample
/// of the drive's distribution, drawn with `seed`.
pub fn random_phase(spec: &DriveSpec, requests: &[Request], seed: u64) -> Vec<Nanos> {
    let mut server = Server::new(spec);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut at = BEGIN;
    let serve = |request: &Request| {
        at.0 += request.think.0;
        server.turn(share(random.next_u64()));
        let time = server.serve(at, request);
        at.0 += request.response.0;
        time
    };
    requests.iter().map(serve).collect()
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
    let mut server = Server::new(spec);
    let period = server.disk().mechanism().rotation.period();
    let mut follower = Follower::new(period);
    let mut at = BEGIN;
    let serve = |request: &Request| {
        at.0 += request.think.0;
        server.turn(follower.drift_until(at));
        let time = server.serve(at, request);
        server.turn(follower.learn(request.response, time));
        at.0 += request.response.0;
        time
    };
    let times = requests.iter().map(serve).collect();
    Followed {
        times,
        coherence: follower.coherence(),
    }
}

//! Fits to traces of simulated drives, whose true figures are known.

#![allow(clippy::unwrap_used)]

use crate::accuracy::{demerit_ms, predicted_percent};
use crate::descent::descend;
use crate::objective::Objective;
use crate::parameters::{Parameters, Sort};
use crate::replay::{closed_loop, followed, random_phase};
use crate::requests::Request;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tonearm_base::Nanos;
use tonearm_drive_file::{DriveFile, DriveSpec, SeekCurve, library};
use tonearm_world::Kind;

fn spec(name: &str) -> DriveSpec {
    DriveFile::of_library(name).spec
}

/// Random requests of up to 16 sectors, with the times that `spec` takes for them.
fn measured(spec: &DriveSpec, count: usize) -> Vec<Request> {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut requests: Vec<Request> = (0..count)
        .map(|_| Request {
            kind: match random.next_u64() % 3 {
                0 => Kind::Write,
                _ => Kind::Read,
            },
            lba: random.next_u64() % 2_000_000,
            sectors: 1 + (random.next_u64() % 16) as u32,
            think: Nanos(random.next_u64() % 20_000_000),
            response: Nanos(0),
        })
        .collect();
    let times = closed_loop(spec, &requests);
    for (request, time) in requests.iter_mut().zip(times) {
        request.response = time;
    }
    requests
}

#[test]
fn the_fit_finds_the_phase_and_speed_of_the_real_platter() {
    let real = spec("st41601n");
    let mut requests = measured(&real, 2000);
    // The first request waits a third of a revolution longer, so the real platter has another phase.
    requests[0].think.0 += 3_700_000;
    let mut model = real.clone();
    model.disk.as_mut().unwrap().rotation.rpm *= 1.000_001;
    let run = followed(&model, &requests);
    assert!(run.coherence > 0.9, "{}", run.coherence);
    let predicted = predicted_percent(&requests[500..], &run.times[500..]);
    assert!(predicted > 95.0, "{predicted}");
    let unaware = random_phase(&model, &requests, 1);
    assert!(predicted_percent(&requests, &unaware) < 20.0);
}

#[test]
fn a_trace_without_a_phase_has_low_coherence() {
    let real = spec("st41601n");
    let mut requests = measured(&real, 2000);
    let times = random_phase(&real, &requests, 3);
    for (request, time) in requests.iter_mut().zip(times) {
        request.response = time;
    }
    let run = followed(&real, &requests);
    assert!(run.coherence < crate::follow::KEPT, "{}", run.coherence);
}

#[test]
fn figures_that_were_moved_are_found_again() {
    let real = spec("st41601n");
    let requests = measured(&real, 1500);
    let mut model = real.clone();
    let disk = model.disk.as_mut().unwrap();
    disk.overhead.read_miss_ms.read += 0.6;
    disk.bus.write_sector_ms += 0.06;
    for follow in [true, false] {
        let parameters = Parameters::new(model.clone());
        let objective = Objective::new(&requests, follow);
        let start = parameters.start().to_vec();
        let found = descend(&parameters, &objective, start, 6).unwrap();
        let fitted = parameters.spec(&found.values).unwrap();
        let demerit =
            |spec: &DriveSpec| demerit_ms(&requests, &closed_loop(spec, &requests), None).unwrap();
        let (before, after) = (demerit(&model), demerit(&fitted));
        assert!(after < before / 2.0, "{follow}: {before} -> {after}");
        let again = descend(&parameters, &objective, parameters.start().to_vec(), 6).unwrap();
        assert_eq!(found.values, again.values, "a fit is deterministic");
    }
}

#[test]
fn figures_without_a_change_make_the_same_drive() {
    for known in library() {
        let spec = spec(known.name);
        if spec.disk.is_none() {
            continue;
        }
        let parameters = Parameters::new(spec);
        let same = parameters.spec(parameters.start()).unwrap();
        let (before, after) = (
            parameters.before().disk.as_ref().unwrap(),
            same.disk.as_ref().unwrap(),
        );
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-4, "{}: {a} {b}", known.name);
        close(
            before.overhead.read_miss_ms.write,
            after.overhead.read_miss_ms.write,
        );
        close(before.bus.read_sector_ms, after.bus.read_sector_ms);
        let SeekCurve::Table(points) = &after.seek.curve else {
            panic!("a fitted curve is a table");
        };
        for (distance, ms) in points {
            close(
                tonearm_drive_file::curve_ms(&before.seek.curve, *distance),
                *ms,
            );
        }
    }
}

#[test]
fn a_time_is_never_below_zero_but_a_difference_may_be() {
    let parameters = Parameters::new(spec("atlas10k"));
    for index in 0..parameters.start().len() {
        let mut values = parameters.start().to_vec();
        values[index] = -0.1;
        let difference = parameters.sort(index) == Sort::Difference;
        assert_eq!(parameters.spec(&values).is_some(), difference, "{index}");
    }
}

//! The drives of the project compared with traces of the real ones.

use crate::data::{drive, rows};
use tonearm_base::Nanos;
use tonearm_drive::{Demerit, Drive, DriveOptions};
use tonearm_world::{DriveRequest, Kind, Timing};

/// Demerit of the reference simulator, computed exactly (all, reads, writes), and our present one, which must not
/// increase.
const TABLE: [(&str, [f64; 3], [f64; 3]); 5] = [
    ("st41601n", [0.084, 0.092, 0.311], [0.040, 0.059, 0.052]),
    ("hp_c2247a", [0.090, 0.149, 0.124], [0.050, 0.059, 0.090]),
    ("cheetah9LP", [0.107, 0.123, 0.161], [0.071, 0.087, 0.160]),
    ("barracuda", [0.348, 0.497, 0.270], [0.108, 0.139, 0.057]),
    ("atlas10k", [0.268, 0.385, 0.175], [0.073, 0.095, 0.144]),
];

/// Measured and simulated response times, and whether each is a read. The loop is closed: the next request is sent its
/// think time after the completion.
fn replay(name: &str) -> Vec<(Nanos, Nanos, bool)> {
    let mut drive = Drive::new(&drive(name), &DriveOptions::default());
    let (mut now, mut done) = (Nanos(0), Vec::new());
    let mut replayed = Vec::new();
    for (id, row) in rows(&format!("measured/{name}.csv.gz")).iter().enumerate() {
        let read = row[0] == "R";
        drive.submit(
            now,
            DriveRequest {
                id: id as u64,
                kind: if read { Kind::Read } else { Kind::Write },
                fua: false,
                lba: row[2].parse().unwrap(),
                sectors: row[3].parse().unwrap(),
            },
        );
        let at = drive.next().unwrap();
        drive.advance(at, &mut done);
        assert_eq!(done.pop().map(|done| done.id), Some(id as u64));
        let nanos = |index: usize| Nanos((row[index].parse::<f64>().unwrap() * 1e6) as u64);
        replayed.push((nanos(4), Nanos(at.0 - now.0), read));
        now = Nanos(at.0 + nanos(5).0);
    }
    replayed
}

fn demerit(replayed: &[(Nanos, Nanos, bool)], keep: impl Fn(bool) -> bool) -> f64 {
    let kept = || replayed.iter().filter(|(_, _, read)| keep(*read));
    let measured: Vec<Nanos> = kept().map(|(measured, _, _)| *measured).collect();
    let simulated: Vec<Nanos> = kept().map(|(_, simulated, _)| *simulated).collect();
    Demerit::of(&measured, &simulated).unwrap().demerit_ms
}

#[test]
fn no_drive_is_worse_than_the_reference_simulator_and_none_gets_worse() {
    for (name, reference, ours) in TABLE {
        let replayed = replay(name);
        let found = [
            demerit(&replayed, |_| true),
            demerit(&replayed, |read| read),
            demerit(&replayed, |read| !read),
        ];
        println!("{name}: demerit {found:.3?} ms, the reference {reference:?}");
        for index in 0..3 {
            assert!(
                found[index] <= reference[index],
                "{name}: {found:?} against {reference:?}"
            );
            assert!(
                found[index] <= ours[index],
                "{name}: {found:?}, it was {ours:?}"
            );
        }
    }
}

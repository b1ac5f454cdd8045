//! The drives of the project compared with traces of the real ones.

use crate::data::{drive, rows};
use tonearm_base::Nanos;
use tonearm_drive::{ClosedLoop, Demerit, Drive, DriveOptions};
use tonearm_world::Kind;

/// Demerit of the reference simulator, computed exactly (all, reads, writes), and our present one, which must not
/// increase.
const TABLE: [(&str, [f64; 3], [f64; 3]); 5] = [
    ("st41601n", [0.084, 0.092, 0.311], [0.040, 0.059, 0.052]),
    ("hp_c2247a", [0.090, 0.149, 0.124], [0.050, 0.059, 0.090]),
    ("cheetah9LP", [0.107, 0.123, 0.161], [0.071, 0.087, 0.160]),
    ("barracuda", [0.348, 0.497, 0.270], [0.108, 0.139, 0.057]),
    ("atlas10k", [0.268, 0.385, 0.175], [0.073, 0.095, 0.144]),
];

/// Measured and simulated response time of a request, and whether it was a read.
pub type Times = (Nanos, Nanos, bool);

/// The time of a field in milliseconds.
pub fn nanos(ms: &str) -> Nanos {
    Nanos((ms.parse::<f64>().unwrap() * 1e6).round() as u64)
}

/// The loop is closed: the next request is sent its think time after the completion.
fn replay(name: &str) -> Vec<Times> {
    let mut user = ClosedLoop::new(Drive::new(&drive(name), &DriveOptions::default()));
    let times = |row: &Vec<String>| {
        let (lba, sectors) = (row[2].parse().unwrap(), row[3].parse().unwrap());
        let simulated = match row[0].as_str() {
            "R" => user.serve(Kind::Read, lba, sectors),
            _ => user.write_cached(lba, sectors),
        };
        user.think(nanos(&row[5]));
        (nanos(&row[4]), simulated, row[0] == "R")
    };
    let rows = rows(&format!("measured/{name}.csv.gz"));
    rows.iter().map(times).collect()
}

/// The demerit of reads or of writes alone, or of both.
pub fn demerit(times: &[Times], keep: impl Fn(bool) -> bool) -> Demerit {
    let kept = times.iter().filter(|(_, _, read)| keep(*read));
    let (measured, simulated): (Vec<Nanos>, Vec<Nanos>) = kept
        .map(|(measured, simulated, _)| (*measured, *simulated))
        .unzip();
    Demerit::of(&measured, &simulated).unwrap()
}

#[test]
fn no_drive_is_worse_than_the_reference_or_before() {
    for (name, reference, ours) in TABLE {
        let replayed = replay(name);
        let found = [
            demerit(&replayed, |_| true).demerit_ms,
            demerit(&replayed, |read| read).demerit_ms,
            demerit(&replayed, |read| !read).demerit_ms,
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

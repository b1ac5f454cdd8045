//! Places of sectors and seek times, for each drive for which they are known.

use crate::data::{drive, rows};
use crate::params::extracted;
use tonearm_drive::Seek;
use tonearm_drive_file::Geometry;

const DRIVES: [&str; 4] = ["atlas10k", "cheetah9LP", "hp_c2247a", "st41601n"];

#[test]
fn places_of_sectors_match_the_known_layouts() {
    for name in DRIVES {
        let mut spec = drive(name).disk.unwrap().geometry;
        // The reference has the sectors too that the drive does not report to its host.
        spec.sectors = None;
        let geometry = Geometry::new(&spec);
        let rows = rows(&format!("layout/{name}.layout.csv.gz"));
        assert!(rows.len() > 5000);
        for row in rows {
            let number = |index: usize| row[index].parse::<u64>().unwrap();
            let extent = geometry.extent(number(0));
            let place = (extent.cylinder, extent.head, extent.sector);
            let expected = (number(1) as u32, number(2) as u32, number(3) as u32);
            assert_eq!(place, expected, "{name}: sector {}", row[0]);
            assert_eq!(u64::from(extent.track_sectors), number(4));
            let angle = extent.angle as f64 / 18_446_744_073_709_551_616.0;
            let error = angle - row[5].parse::<f64>().unwrap();
            let error = (error + 0.5).rem_euclid(1.0) - 0.5;
            assert!(
                error.abs() < 1e-6,
                "{name}: sector {}: angle {angle}",
                row[0]
            );
        }
    }
}

#[test]
fn seek_times_match_the_known_curves() {
    for name in DRIVES {
        let disk = extracted(name).disk.unwrap();
        let seek = Seek::new(&disk.seek, disk.geometry.cylinders);
        for row in rows(&format!("layout/{name}.seek.csv.gz")) {
            let distance: u32 = row[0].parse().unwrap();
            for (column, head, write) in [
                (1, false, false),
                (2, false, true),
                (3, true, false),
                (4, true, true),
            ] {
                let time = seek.time(distance, head, write).0 as f64 / 1e6;
                let expected: f64 = row[column].parse().unwrap();
                let error = (time - expected).abs();
                assert!(
                    error < 2e-5,
                    "{name}: {distance} cylinders: {time}, not {expected}"
                );
            }
        }
    }
}

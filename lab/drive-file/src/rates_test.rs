use crate::DriveFile;

/// HyLog, Table 1. The paper does not say how it has measured the rates.
#[test]
fn positioning_and_rate_are_those_of_the_paper() {
    for (name, positioning_ms, mb_per_s) in [("hylog2003", 5.6, 61.0), ("atlas10k", 8.6, 20.4)] {
        let file = DriveFile::of_library(name);
        let disk = file.spec.disk.expect("a platter");
        let (ms, rate) = (1e3 * disk.positioning(), disk.sustained_rate() / 1e6);
        assert!((ms / positioning_ms - 1.0).abs() < 0.05, "{name}: {ms} ms");
        assert!((rate / mb_per_s - 1.0).abs() < 0.15, "{name}: {rate} MB/s");
    }
}

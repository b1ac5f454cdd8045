//! Wrong drive files: each error names the place and the reason.

use crate::made::PLAIN;
use proptest::prelude::*;
use tonearm_drive_file::DriveSpec;

fn error(text: &str) -> (String, String) {
    match DriveSpec::parse("drives/made.toml", text) {
        Ok(_) => panic!("it passes: {text}"),
        Err(error) => {
            let shown = error.to_string();
            assert!(shown.starts_with("drives/made.toml: "), "{shown}");
            assert!(shown.contains(&error.key) && shown.contains(&error.reason));
            (error.key, error.reason)
        }
    }
}

/// Checks that the small file with `from` replaced by `to` is refused at `key`, for a reason that contains `reason`.
#[track_caller]
fn refused(from: &str, to: &str, key: &str, reason: &str) {
    assert!(PLAIN.contains(from), "{from}");
    let (at, why) = error(&PLAIN.replacen(from, to, 1));
    assert!(at.contains(key), "'{to}': key '{at}', not '{key}' ({why})");
    assert!(
        why.contains(reason),
        "'{to}': reason '{why}', not '{reason}'"
    );
}

#[test]
fn the_made_up_file_is_right() {
    DriveSpec::parse("made.toml", PLAIN).unwrap();
}

#[test]
fn wrong_toml_and_wrong_types_are_reported_with_their_line() {
    refused("rpm = 6000", "rpm = ", "disk.rotation.rpm (line 6)", "");
    refused(
        "rpm = 6000",
        "rpm = \"fast\"",
        "disk.rotation.rpm (line 6)",
        "string",
    );
    refused(
        "rpm = 6000",
        "rmp = 6000",
        "disk.rotation.rmp (line 6)",
        "rmp",
    );
    refused("rpm = 6000\n", "", "disk.rotation", "rpm");
    refused("heads = 2", "heads = -2", "disk.geometry.heads", "-2");
    refused("heads = 2", "heads = 2.5", "disk.geometry.heads", "2.5");
    refused(
        "heads = 2",
        "heads = 99999999999",
        "disk.geometry.heads",
        "99999999999",
    );
    refused(
        "track_sectors = 100",
        "track_sector = 100",
        "disk.geometry.zones[0]",
        "track_sector",
    );
    refused("[disk.bus]", "[disk.bass]", "disk.", "bass");
    refused(
        "[disk.seek]",
        "[disk.rotation]",
        "disk.rotation",
        "duplicate",
    );
    refused("curve.table", "curve.tables", "disk.seek", "tables");
    refused(
        "[[1, 1.1], [49, 5.9]]",
        "[[1, \"x\"]]",
        "disk.seek.curve.table",
        "string",
    );
    refused("title = \"made up\"\n", "", "line 1", "title");
}

#[test]
fn impossible_figures_are_refused_with_their_key() {
    for rpm in ["0", "-1", "nan", "inf", "1e9"] {
        refused(
            "rpm = 6000",
            &format!("rpm = {rpm}"),
            "disk.rotation.rpm",
            "between",
        );
    }
    refused(
        "rpm = 6000",
        "rpm = 6000\njitter_ns = 999999999",
        "disk.rotation.jitter_ns",
        "between",
    );
    refused("heads = 2", "heads = 0", "disk.geometry.heads", "between");
    refused(
        "heads = 2",
        "heads = 4000000000",
        "disk.geometry.heads",
        "between",
    );
    refused(
        "cylinders = 50",
        "cylinders = 0",
        "disk.geometry.cylinders",
        "between",
    );
    refused(
        "cylinders = 50",
        "cylinders = 4000000000",
        "disk.geometry.cylinders",
        "between",
    );
    for (key, wrong) in [
        ("head_switch_ms = 0.5", "-0.1"),
        ("read_sector_ms = 0.0", "nan"),
        ("read_sector_ms = 0.0", "1e9"),
        ("write_sector_ms = 0.0", "-1.0"),
    ] {
        let name = key.split(' ').next().unwrap();
        refused(key, &format!("{name} = {wrong}"), name, "between");
    }
    refused(
        "read = 0.0",
        "read = -0.5",
        "disk.overhead.read_hit_ms",
        "between",
    );
    refused(
        "read = 0.0",
        "read = inf",
        "disk.overhead.read_hit_ms",
        "between",
    );
    refused(
        "source = \"made up\"",
        "source = \" \"",
        "source",
        "come from",
    );
    let segments = |line: &str, key: &str| refused("segments = 0", line, key, "");
    segments("segments = 4", "disk.buffer.segment_sectors");
    segments("segments = 4000000000", "disk.buffer.segments");
    segments(
        "read_watermark = 1.5\nsegments = 0",
        "disk.buffer.read_watermark",
    );
    let cache = |lines: &str, key: &str| {
        let (at, why) = error(&format!("{PLAIN}[write_cache]\n{lines}"));
        assert_eq!(at, key, "{why}");
    };
    cache("enabled = true\nsource = \"x\"", "write_cache.sectors");
    cache("enabled = true\nsectors = 8", "write_cache.source");
    cache("idle_ms = nan", "write_cache.idle_ms");
    let host = |lines: &str, key: &str| {
        let (at, why) = error(&format!("{PLAIN}[host]\n{lines}"));
        assert_eq!(at, key, "{why}");
    };
    host("request_ms = 0.1", "host.source");
    host("late_ms = 0.1\nsource = \" \"", "host.source");
    host("request_ms = -0.1\nsource = \"x\"", "host.request_ms");
    host("late_ms = inf\nsource = \"x\"", "host.late_ms");
    for noise in ["-0.1", "nan", "1001"] {
        refused(
            "write_miss_ms =",
            &format!("noise_ms = {noise}\nwrite_miss_ms ="),
            "disk.overhead.noise_ms",
            "between",
        );
    }
}

#[test]
fn impossible_seek_curves_are_refused() {
    let curve = |to: &str, key: &str| {
        refused("curve.table = [[1, 1.1], [49, 5.9]]", to, key, "");
    };
    curve("curve.table = []", "disk.seek.curve.table");
    curve("curve.table = [[0, 1.0]]", "disk.seek.curve.table[0]");
    curve(
        "curve.table = [[2, 1.0], [2, 1.0]]",
        "disk.seek.curve.table[1]",
    );
    curve(
        "curve.table = [[1, 1.0], [9, -1.0]]",
        "disk.seek.curve.table[1]",
    );
    curve(
        "curve.table = [[1, 1.0], [9, nan]]",
        "disk.seek.curve.table[1]",
    );
    // It is negative at greater distances.
    curve(
        "curve.table = [[1, 5.0], [9, 1.0]]",
        "disk.seek.curve at 49",
    );
    let formula = |inner: &str, key: &str| curve(&format!("curve.formula = {{ {inner} }}"), key);
    formula(
        "below = 10, root = [nan, 1.0], above = [1.0, 1.0]",
        "disk.seek.curve.formula.root",
    );
    formula(
        "below = 10, root = [1.0, 1.0], above = [1.0, inf]",
        "disk.seek.curve.formula.above",
    );
    // It is wrong only between the first distance and the middle.
    formula(
        "below = 10, root = [4.0, -2.0], above = [1.0, 0.1]",
        "disk.seek.curve at 9",
    );
    formula(
        "first_ms = [1.0, -1.0], below = 2, root = [1.0, 1.0], above = [1.0, 0.1]",
        "disk.seek.curve.formula.first_ms[1]",
    );
}

#[test]
fn impossible_geometries_are_refused() {
    let zone = |lines: &str, key: &str, reason: &str| {
        refused(
            "track_sectors = 100",
            lines,
            &format!("disk.geometry.zones{key}"),
            reason,
        );
    };
    zone("track_sectors = 0", "[0].track_sectors", "between");
    zone("track_sectors = 4000000000", "[0].track_sectors", "between");
    zone(
        "track_sectors = 100\ntrack_skew = 101",
        "[0].track_skew",
        "between",
    );
    zone("track_sectors = 100\noffset = nan", "[0].offset", "between");
    zone(
        "track_sectors = 100\nreserved = 10000",
        "[0].reserved",
        "left",
    );
    zone(
        "track_sectors = 100\nslips = [10000]",
        "[0].slips",
        "beyond",
    );
    zone("track_sectors = 100\nslips = [5, 5]", "[0].slips", "twice");
    zone("track_sectors = 100\nspares = 1", "[0].spares", "no spares");
    let second = |first, last| {
        format!(
            "track_sectors = 100\n[[disk.geometry.zones]]\nfirst_cylinder = {first}\n\
             last_cylinder = {last}\ntrack_sectors = 50"
        )
    };
    zone(&second(49, 49), "[1].first_cylinder", "overlaps");
    zone(&second(50, 50), "[1].last_cylinder", "last");
    refused(
        "last_cylinder = 49",
        "last_cylinder = 50",
        "zones[0].last_cylinder",
        "49",
    );
    refused(
        "first_cylinder = 0",
        "first_cylinder = 50",
        "zones[0].last_cylinder",
        "50",
    );
    let sectors = |count: u64| format!("cylinders = 50\nsectors = {count}");
    refused(
        "cylinders = 50",
        &sectors(0),
        "disk.geometry.sectors",
        "between",
    );
    refused(
        "cylinders = 50",
        &sectors(10_001),
        "disk.geometry.sectors",
        "10000",
    );
    DriveSpec::parse("", &PLAIN.replace("cylinders = 50", &sectors(10_000))).unwrap();
}

#[test]
fn spares_have_to_suffice_and_to_be_spare() {
    let spared = |sparing: &str, lines: &str, key: &str, reason: &str| {
        let text = PLAIN.replace(
            "cylinders = 50",
            &format!("cylinders = 50\nsparing = {sparing}"),
        );
        let text = text.replace(
            "track_sectors = 100",
            &format!("track_sectors = 100\n{lines}"),
        );
        if key.is_empty() {
            DriveSpec::parse("", &text).unwrap();
            return;
        }
        let (at, why) = error(&text);
        assert!(
            at.ends_with(key) && why.contains(reason),
            "{lines}: {at}: {why}"
        );
    };
    spared("\"zone\"", "spares = 10000", "spares", "left");
    spared("\"track\"", "spares = 100", "spares", "left");
    spared(
        "\"cylinder\"",
        "spares = 1\nslips = [200, 399]",
        "slips",
        "399",
    );
    spared("\"cylinder\"", "spares = 1\nslips = [199, 200]", "", "");
    spared("{ cylinders = 0 }", "spares = 1", "sparing", "at least one");
    // The last range is two cylinders of 400 sectors.
    spared("{ cylinders = 48 }", "spares = 400", "spares", "left");
    spared("{ cylinders = 48 }", "spares = 399", "", "");
    spared("{ cylinders = 4000000000 }", "spares = 9", "", "");
    spared(
        "\"tracks\"",
        "spares = 2\nslips = [3, 100]",
        "slips",
        "beyond",
    );
    spared("\"tracks\"", "spares = 2\ndefects = [[3, 98]]", "", "");
    spared(
        "\"tracks\"",
        "spares = 2\ndefects = [[3, 97]]",
        "defects",
        "no spare",
    );
    spared("\"zone\"", "spares = 2\ndefects = [[3, 9998]]", "", "");
    spared(
        "\"zone\"",
        "spares = 2\ndefects = [[3, 9998], [3, 9999]]",
        "defects",
        "twice",
    );
    spared(
        "\"zone\"",
        "spares = 2\ndefects = [[3, 9998], [4, 9998]]",
        "defects",
        "twice",
    );
    spared(
        "\"zone\"",
        "spares = 2\nslips = [7]\ndefects = [[3, 9998]]",
        "defects",
        "no spare",
    );
    spared(
        "\"zone\"",
        "spares = 2\nslips = [7]\ndefects = [[7, 9999]]",
        "defects",
        "slipped",
    );
    spared(
        "\"zone\"",
        "spares = 2\ndefects = [[3, 10000]]",
        "defects",
        "beyond",
    );
    spared("\"zones\"", "", "sparing (line 11)", "zones");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn no_text_makes_the_parser_panic(
        at in any::<prop::sample::Index>(),
        length in 0_usize..40,
        with in "[\\[\\]=\"a-z0-9 .#\n\u{e9}]{0,12}",
    ) {
        let from = at.index(PLAIN.len());
        let to = (from + length).min(PLAIN.len());
        let text = format!("{}{with}{}", &PLAIN[..from], &PLAIN[to..]);
        if let Err(error) = DriveSpec::parse("made.toml", &text) {
            prop_assert!(!error.key.is_empty() && !error.reason.is_empty());
        }
    }
}

/// The small file with a section at its end.
fn with(section: &str) -> String {
    format!("{PLAIN}\n{section}\n")
}

#[test]
fn a_wrong_media_cache_is_refused() {
    let section = |rest: &str| {
        with(&format!(
            "[disk.media_cache]\nsource = \"made up\"\nsectors = 800\nidle_ms = 10.0\n{rest}"
        ))
    };
    DriveSpec::parse("made.toml", &section("")).unwrap();
    for (rest, key, reason) in [
        ("zone_sectors = 8388609", "zone_sectors", "between"),
        ("map_writes = 5", "map_writes", "both"),
        ("map_ms = 5.0", "map_writes", "both"),
        ("zones = 3", "media_cache.zones", "unknown field"),
    ] {
        let (at, why) = error(&section(rest));
        assert!(at.contains(key) && why.contains(reason), "{at}: {why}");
    }
    let without = section("").replace("sectors = 800", "sectors = 0");
    assert!(error(&without).0.contains("media_cache.sectors"));
    let deltas = "[disk.deltas]\nsource = \"made up\"\ntrack_sectors = 100\nwrite_after_write = 1\n\
                  write_after_read = 1\nread_after_write = 1\nread_lag_ns = 0\n";
    let (at, why) = error(&section(deltas));
    assert!(
        at.contains("disk.deltas") && why.contains("media cache"),
        "{at}: {why}"
    );
}

#[test]
fn a_cache_with_power_loss_protection_is_not_volatile() {
    let flash = |enabled: bool| {
        format!(
            "title = \"made up\"\nsource = \"made up\"\n[flash]\nsource = \"made up\"\nsectors = 1000\nchannels = 2\n\
             power_loss_protection = true\nread_ms = 0.1\nwrite_ms = 0.1\nwrite_cached_ms = 0.1\nflush_ms = 0.1\n\
             flush_ms_per_mib = 0.0\nread_mib_per_s = 100.0\nwrite_mib_per_s = 100.0\n[write_cache]\n\
             source = \"made up\"\nenabled = {enabled}\n"
        )
    };
    DriveSpec::parse("made.toml", &flash(false)).unwrap();
    let (at, why) = error(&flash(true));
    assert!(
        at.contains("write_cache.enabled") && why.contains("not volatile"),
        "{at}: {why}"
    );
}

use crate::{Extent, VolumeEntry, VolumeKind, volume_faults};

fn volume(name: &str, size_bytes: u64, extents: &[(u64, u64)]) -> VolumeEntry {
    let extents = extents
        .iter()
        .map(|&(start, count)| Extent { start, count });
    VolumeEntry {
        uuid: [1; 16],
        name: name.into(),
        size_bytes,
        kind: VolumeKind::Plain,
        read_only: false,
        created_unix_s: 0,
        extents: extents.collect(),
    }
}

/// The faults of volumes in a store of 1000 blocks of 4096 bytes.
fn faults(volumes: &[VolumeEntry]) -> Vec<String> {
    let entries = (0..).zip(volumes);
    let faults = volume_faults(entries, 1000, 4096);
    faults.iter().map(ToString::to_string).collect()
}

#[test]
fn disjoint_volumes_may_fill_the_store() {
    let volumes = [
        volume("a", 700 * 4096, &[(256, 400), (700, 300)]),
        // Taken ahead of its size.
        volume("b", 1, &[(656, 44)]),
        volume("c", 0, &[]),
    ];
    assert_eq!(faults(&volumes), [""; 0]);
}

#[test]
fn each_broken_rule_names_the_volume() {
    let cases = [
        (volume("a", 1, &[(255, 2)]), "those of the volume table"),
        (volume("a", 1, &[(0, 1)]), "those of the volume table"),
        (
            volume("a", 1, &[(999, 2)]),
            "beyond the store, which has 1000",
        ),
        (volume("a", 1, &[(u64::MAX - 1, 1)]), "beyond the store"),
        (volume("a", 4097, &[(256, 1)]), "do not cover them"),
        (volume("a", u64::MAX, &[(256, 1)]), "do not cover them"),
        (volume("a", 1, &[]), "do not cover them"),
        (
            volume("a", 1, &[(256, 4), (259, 1)]),
            "overlap those of volume \"a\"",
        ),
        (
            volume("a", 1, &[(259, 1), (256, 4)]),
            "overlap those of volume \"a\"",
        ),
        (volume("a", 1, &[(300, 1), (301, 1), (299, 100)]), "overlap"),
        (volume("a", 1, &[(300, 100), (350, 1)]), "overlap"),
    ];
    for (volume, why) in cases {
        let found = faults(&[volume]);
        assert_eq!(found.len(), 1, "{why}");
        assert!(
            found[0].starts_with("volume \"a\" (entry 0 of the volume table): "),
            "{found:?}"
        );
        assert!(found[0].contains(why), "{found:?} for {why}");
    }
}

#[test]
fn of_two_volumes_that_exclude_each_other_the_later_is_named() {
    let twice = [volume("a", 1, &[(256, 1)]), volume("a", 1, &[(257, 1)])];
    assert_eq!(
        faults(&twice),
        ["volume \"a\" (entry 1 of the volume table): there is another volume of this name"]
    );
    let shared = [volume("a", 1, &[(256, 9)]), volume("b", 1, &[(264, 9)])];
    assert_eq!(
        faults(&shared),
        [
            "volume \"b\" (entry 1 of the volume table): its blocks 264..273 overlap those of volume \"a\""
        ]
    );
    let lists = |name| VolumeEntry {
        kind: VolumeKind::Lists,
        ..volume(name, 0, &[])
    };
    let found = faults(&[lists("a"), lists("b")]);
    assert!(
        found[0].contains("there is another volume of this kind"),
        "{found:?}"
    );
}

//! Maps of the drives' tracks.

use tonearm_drive_file::{DriveSpec, Extent, Geometry, library, track_map};
use tonearm_head::Track;

#[test]
fn track_map_of_a_drive_has_every_track() {
    for drive in library() {
        let spec = DriveSpec::parse(drive.name, drive.text).unwrap();
        let Some(disk) = &spec.disk else { continue };
        if !spec.has_head() {
            assert_eq!(track_map(&spec, 0..u64::MAX), None);
            continue;
        }
        let tracks = tracks(&Geometry::new(&disk.geometry));
        let map = track_map(&spec, 0..u64::MAX).unwrap();
        assert_eq!(map.tracks(), tracks.len() as u64, "{}", drive.name);
        for track in &tracks {
            let found = map.track(track.index);
            let sector = u32::MAX / track.turn_sectors;
            let off = found.angle.wrapping_sub(track.angle) as i32;
            assert!(
                off.unsigned_abs() <= sector / 16,
                "{}: {track:?}, {found:?}",
                drive.name
            );
            let angle = track.angle;
            assert_eq!(Track { angle, ..found }, *track, "{}", drive.name);
            for sector in [track.first, track.end() - 1] {
                assert_eq!(map.find(sector), Some(found), "{}", drive.name);
            }
        }
    }
}

/// The tracks without slipped or remapped sectors.
fn tracks(geometry: &Geometry) -> Vec<Track> {
    let limit = geometry.sectors();
    let mut tracks: Vec<Track> = Vec::new();
    let place = |extent: &Extent| (extent.cylinder, extent.head);
    let mut at = 0;
    while at < limit {
        let extent = geometry.extent(at);
        let first = at;
        at += u64::from(extent.sectors);
        let mut whole = true;
        while at < limit {
            let next = geometry.extent(at);
            if place(&next) != place(&extent) {
                break;
            }
            whole = false;
            at += u64::from(next.sectors);
        }
        if whole && at <= limit {
            tracks.push(Track {
                index: tracks.len() as u64,
                first,
                sectors: extent.sectors,
                turn_sectors: extent.track_sectors,
                angle: (extent.angle >> 32) as u32,
            });
        }
    }
    tracks
}

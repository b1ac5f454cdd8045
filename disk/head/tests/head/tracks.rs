//! Maps of the drives' tracks.

use crate::truth::{spec, tracks};
use tonearm_drive::library;
use tonearm_head::TrackMap;

#[test]
fn a_drive_is_a_few_runs_of_tracks_and_its_map_tells_every_track() {
    for drive in library() {
        let spec = spec(drive.name);
        let Some(disk) = &spec.disk else { continue };
        let tracks = tracks(&spec, u64::MAX);
        let map = TrackMap::from_tracks(tracks.iter().copied()).unwrap();
        assert_eq!(map.tracks(), tracks.len() as u64, "{}", drive.name);
        for track in &tracks {
            let told = map.track(track.index);
            let sector = u32::MAX / track.turn_sectors;
            let off = told.angle.wrapping_sub(track.angle) as i32;
            assert!(
                off.unsigned_abs() <= sector / 16,
                "{}: {track:?}, {told:?}",
                drive.name
            );
            let angle = track.angle;
            assert_eq!(
                tonearm_head::Track { angle, ..told },
                *track,
                "{}",
                drive.name
            );
            for sector in [track.first, track.end() - 1] {
                assert_eq!(map.find(sector), Some(told), "{}", drive.name);
            }
        }
        let zones = disk.geometry.zones.len();
        let slips: usize = disk
            .geometry
            .zones
            .iter()
            .map(|zone| zone.slips.len() + zone.defects.len())
            .sum();
        println!(
            "{:12} {:6} tracks {:3} zones {:5} slips {:5} runs {} bytes",
            drive.name,
            tracks.len(),
            zones,
            slips,
            map.runs().len(),
            map.memory_bytes()
        );
    }
}

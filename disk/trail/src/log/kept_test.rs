use super::*;

fn read(kept: &KeptTracks, offset: u64) -> Option<Vec<u8>> {
    let mut out = vec![9; 8];
    kept.read((0, offset), &mut out).then_some(out)
}

#[test]
fn track_is_kept_from_its_opening() {
    let mut kept = KeptTracks::default();
    kept.open((0, 0));
    kept.note((0, 0), 0, &[1]);
    assert_eq!(read(&kept, 0), None, "there is no reader");
    kept.add_reader();
    kept.note((0, 0), 1, &[2]);
    assert_eq!(read(&kept, 0), None, "its first write is not there");
    kept.open((0, 8));
    kept.note((0, 8), 4, &[3, 4]);
    kept.note((0, 8), 0, &[5]);
    kept.note((1, 8), 0, &[6]);
    assert_eq!(read(&kept, 8), Some(vec![5, 0, 0, 0, 3, 4, 0, 0]));
    kept.add_reader();
    kept.remove_reader();
    assert!(read(&kept, 8).is_some());
    kept.remove_reader();
    assert_eq!(read(&kept, 8), None);
}

#[test]
fn track_that_is_opened_again_begins_anew() {
    let mut kept = KeptTracks::default();
    kept.add_reader();
    for (place, content) in [(0, 1), (8, 2), (0, 3)] {
        kept.open((0, place));
        kept.note((0, place), 0, &[content]);
    }
    assert_eq!(read(&kept, 0), Some(vec![3, 0, 0, 0, 0, 0, 0, 0]));
    assert!(read(&kept, 8).is_some());
}

#[test]
fn oldest_tracks_make_room() {
    let mut kept = KeptTracks::default();
    kept.add_reader();
    let content = vec![7; KEPT_BYTES / 4];
    let mut out = vec![0; content.len()];
    for track in 0..6 {
        kept.open((0, track));
        kept.note((0, track), 0, &content);
        assert!(kept.bytes <= KEPT_BYTES);
    }
    let is_kept: Vec<bool> = (0..6)
        .map(|track| kept.read((0, track), &mut out))
        .collect();
    assert_eq!(is_kept, [false, false, true, true, true, true]);
    // A track that alone is larger is not kept.
    kept.open((0, 6));
    for _ in 0..5 {
        kept.note((0, 6), 0, &content);
    }
    assert!(kept.tracks.is_empty() && kept.bytes == 0);
}

use crate::Search;
use proptest::prelude::*;
use tonearm_base::RecordSeq;

fn run(search: &mut Search, keys: &[Option<u64>]) -> (Option<u64>, u64) {
    let mut probes = 0;
    while let Some(track) = search.probe() {
        probes += 1;
        search.feed(keys[track as usize].map(RecordSeq));
    }
    (search.result(), probes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    /// A log of any age with a torn tail of any pattern: the track found is the last durable one or a
    /// later one that holds what was written after it.
    #[test]
    fn the_youngest_is_found_whatever_the_tail_looks_like(
        tracks in 8u64..80,
        start in 0u64..80,
        durable in 0u64..300,
        tail in prop::collection::vec(0u8..3, 0..16),
    ) {
        let start = start % tracks;
        let tail: Vec<u8> = tail.into_iter().take(crate::unflushed_tracks_max(tracks) as usize).collect();
        let mut keys: Vec<Option<u64>> = vec![None; tracks as usize];
        for count in 0..durable {
            keys[((start + count) % tracks) as usize] = Some(10 + count);
        }
        for (index, state) in tail.iter().enumerate() {
            let count = durable + index as u64;
            let key = &mut keys[((start + count) % tracks) as usize];
            match state {
                0 => {}
                1 => *key = None,
                _ => *key = Some(10 + count),
            }
        }
        let mut search = Search::new(tracks, start);
        let (found, _) = run(&mut search, &keys);
        match found {
            None => prop_assert_eq!(durable, 0),
            Some(track) => {
                let key = keys[track as usize].expect("a found track has a key");
                prop_assert!(key + 1 >= 10 + durable, "found {} of {}", key, 10 + durable);
            }
        }
    }
}

#[test]
fn a_log_of_100_000_tracks_takes_fewer_than_30_reads() {
    let tracks = 100_000u64;
    for durable in [1, 2, 50_000, 99_999, 100_000, 123_456, 1_000_000] {
        let start = 77;
        let mut keys = vec![None; tracks as usize];
        for count in durable - durable.min(tracks)..durable {
            keys[((start + count) % tracks) as usize] = Some(count);
        }
        let (found, probes) = run(&mut Search::new(tracks, start), &keys);
        assert_eq!(found, Some((start + durable - 1) % tracks));
        assert!(probes < 30, "{probes} probes");
    }
}

use super::*;
use tonearm_head::Access;

/// A head that needs these times for writes of at least so many sectors, at these places. It remembers the last question.
struct Known {
    answers: Vec<(u64, u64, u64)>,
    asked: Vec<u64>,
}

impl Head for Known {
    fn name(&self) -> &'static str {
        "known"
    }

    fn written(&mut self, _: &Access) {}

    fn read(&mut self, _: &Access) -> bool {
        false
    }

    fn place(&mut self, _: Nanos, sectors: u32, _: &[Span]) -> Option<Place> {
        self.asked.push(sectors.into());
        let fits = |answer: &&(u64, u64, u64)| u64::from(sectors) >= answer.0;
        let (_, sector, time) = self.answers.iter().find(fits)?;
        let response = (*time > 0).then_some(Nanos(*time));
        Some(Place {
            sector: *sector,
            response,
        })
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}

/// The place of a write of 64 sectors, or of 8 at least, and the sizes that were asked for.
fn chosen(answers: &[(u64, u64, u64)]) -> (Option<u64>, Vec<u64>) {
    let mut head = Known {
        answers: answers.to_vec(),
        asked: Vec::new(),
    };
    let span = |start, end| Span { start, end };
    let spans = [span(0, 40), span(100, 200)];
    let place = fastest(&mut head, Nanos(0), (8, 64), &spans);
    (place.map(|place| place.sector), head.asked)
}

#[test]
fn rest_of_the_track_wins_where_all_would_wait() {
    // 64 sectors in 1700, 32 in 600. From sector 4 on there is room for 36, and for these the head is asked last.
    let (sector, asked) = chosen(&[(64, 100, 1700), (32, 4, 600), (0, 20, 550)]);
    assert_eq!((sector, asked), (Some(4), vec![64, 32, 16, 8, 36]));
}

#[test]
fn whole_batch_is_written_at_once_where_a_part_gains_little() {
    let (sector, asked) = chosen(&[(64, 100, 1400), (32, 4, 600), (0, 20, 550)]);
    assert_eq!((sector, asked.last()), (Some(100), Some(&64)));
}

#[test]
fn one_record_is_asked_for_once() {
    let mut head = Known {
        answers: vec![(0, 4, 500)],
        asked: Vec::new(),
    };
    let spans = [Span { start: 0, end: 40 }];
    let place = fastest(&mut head, Nanos(0), (8, 8), &spans);
    assert_eq!(
        (place.map(|place| place.sector), head.asked),
        (Some(4), vec![8])
    );
}

#[test]
fn head_without_times_gets_the_greatest_size_that_fits() {
    let (sector, asked) = chosen(&[(64, 100, 0)]);
    assert_eq!((sector, asked), (Some(100), vec![64]));
    assert_eq!(chosen(&[]), (None, vec![64, 32, 16, 8]));
}

use super::UnderWay;
use tonearm_base::Nanos;

#[test]
fn the_oldest_is_known_in_whatever_order_requests_end() {
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let list = UnderWay::default();
        // Twice, so that slots are used again.
        for start in [0, 10] {
            let begin = |number| Some(list.begin(Nanos(start + number)));
            let mut begun = [begin(0), begin(1), begin(2)];
            for (ended, which) in order.into_iter().enumerate() {
                let left = (0..3).find(|number| begun[*number].is_some());
                let oldest = left.map(|number| Nanos(start + number as u64));
                assert_eq!((list.count(), list.oldest()), (3 - ended, oldest));
                begun[which] = None;
            }
            assert_eq!((list.count(), list.oldest()), (0, None));
        }
    }
}

use super::geometry::Stripes;

fn stripes(members: usize) -> Stripes {
    Stripes {
        members,
        unit: 4096,
        rows: 40,
        parity: true,
    }
}

#[test]
fn parity_rotates_left_and_data_follows_it() {
    let of = |row| -> Vec<Option<usize>> { (0..4).map(|m| stripes(4).column(row, m)).collect() };
    assert_eq!(of(0), [Some(0), Some(1), Some(2), None]);
    assert_eq!(of(1), [Some(1), Some(2), None, Some(0)]);
    assert_eq!(of(2), [Some(2), None, Some(0), Some(1)]);
    assert_eq!(of(3), [None, Some(0), Some(1), Some(2)]);
    assert_eq!(of(4), of(0));
}

#[test]
fn every_unit_has_one_place() {
    for members in 3..8 {
        let stripes = stripes(members);
        for row in 0..stripes.rows {
            for column in 0..stripes.columns() {
                let member = stripes.member(row, column);
                assert_eq!(stripes.column(row, member), Some(column));
            }
            assert_eq!(stripes.column(row, stripes.parity_member(row)), None);
        }
    }
}

#[test]
fn parts_cover_a_range_in_order() {
    let stripes = stripes(5);
    let (mut at, end) = (1234, 100_000);
    for part in stripes.parts(at..end) {
        let place = part.row * stripes.row_bytes() + part.column as u64 * 4096 + part.range.start;
        assert_eq!(place, at);
        assert!(part.range.end <= 4096);
        at += part.range.end - part.range.start;
    }
    assert_eq!(at, end);
}

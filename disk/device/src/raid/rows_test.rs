use super::rows::RowSet;

#[test]
fn a_row_set_equals_a_list_of_flags() {
    let (mut set, mut flags, mut state) = (RowSet::default(), [false; 64], 1u64);
    for step in 0..4000 {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(step);
        let (a, b) = (state >> 58, (state >> 50) & 63);
        let rows = a.min(b)..a.max(b);
        let flagged = &mut flags[rows.start as usize..rows.end as usize];
        if state & 1 << 40 == 0 {
            set.insert(rows);
            flagged.fill(true);
        } else {
            set.remove(rows);
            flagged.fill(false);
        }
        for (row, flag) in flags.iter().enumerate() {
            assert_eq!(set.contains(row as u64), *flag, "step {step}, row {row}");
        }
        assert_eq!(set.is_empty(), !flags.contains(&true));
    }
}

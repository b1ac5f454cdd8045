use crate::unit_epochs::UnitEpochs;

#[test]
fn freed_ids_wait_for_open_units() {
    let mut epochs = UnitEpochs::new();
    assert_eq!(epochs.free(vec![1]), [1], "no unit is open");
    let a = epochs.begin();
    let b = epochs.begin();
    assert_eq!(epochs.free(vec![2]), []);
    let c = epochs.begin();
    assert_eq!(epochs.free(vec![3]), []);
    let d = epochs.begin();
    assert_eq!(epochs.end(c), [], "3 waits for a and b");
    assert_eq!(epochs.end(a), []);
    assert_eq!(epochs.end(b), [2, 3]);
    assert_eq!(epochs.free(vec![4]), []);
    assert_eq!(epochs.end(d), [4]);
    assert_eq!(epochs.free(vec![5]), [5]);
    let e = epochs.begin();
    assert_eq!(epochs.end(e), []);
}

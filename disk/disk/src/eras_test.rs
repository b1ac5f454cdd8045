use crate::eras::Eras;

#[test]
fn freed_ids_wait_for_open_units() {
    let mut eras = Eras::new();
    assert_eq!(eras.free(vec![1]), [1], "no unit is open");
    let a = eras.begin();
    let b = eras.begin();
    assert_eq!(eras.free(vec![2]), []);
    let c = eras.begin();
    assert_eq!(eras.free(vec![3]), []);
    let d = eras.begin();
    assert_eq!(eras.end(c), [], "3 waits for a and b");
    assert_eq!(eras.end(a), []);
    assert_eq!(eras.end(b), [2, 3]);
    assert_eq!(eras.free(vec![4]), []);
    assert_eq!(eras.end(d), [4]);
    assert_eq!(eras.free(vec![5]), [5]);
    let e = eras.begin();
    assert_eq!(eras.end(e), []);
}

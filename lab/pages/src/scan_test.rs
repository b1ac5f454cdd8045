use crate::counts::Work;
use crate::scan::{Io, Scan};

fn io(page: u32) -> Io {
    Io {
        page,
        pages: 1,
        write: false,
        work: Work::PageRead,
        op: 0,
    }
}

fn all(scan: &mut Scan) -> Vec<u32> {
    std::iter::from_fn(|| scan.pop())
        .map(|io| io.page)
        .collect()
}

#[test]
fn the_sweep_goes_to_the_end_and_back() {
    let mut scan = Scan::default();
    for page in [50, 10, 90, 30] {
        scan.push(io(page));
    }
    assert_eq!(scan.pop().map(|io| io.page), Some(10));
    assert_eq!(scan.pop().map(|io| io.page), Some(30));
    // Behind the head: served on the way back.
    scan.push(io(20));
    scan.push(io(60));
    assert_eq!(all(&mut scan), [50, 60, 90, 20]);
    scan.push(io(5));
    scan.push(io(25));
    assert_eq!(all(&mut scan), [5, 25]);
}

#[test]
fn an_empty_queue_keeps_its_direction() {
    let mut scan = Scan::default();
    assert!(scan.pop().is_none());
    scan.push(io(7));
    scan.push(io(7));
    assert_eq!(all(&mut scan), [7, 7]);
    assert!(scan.pop().is_none());
}

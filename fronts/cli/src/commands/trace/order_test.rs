use super::{HELD_MAX, Order};
use crate::control::{TraceOp, TraceRequest};
use tonearm_base::Nanos;

const SECOND: u64 = 1_000_000_000;

fn at(arrival_ns: u64, offset: u64) -> TraceRequest {
    TraceRequest {
        volume: 0,
        op: TraceOp::Read,
        fua: false,
        offset,
        bytes: 512,
        arrival_ns,
        response_ns: 1,
    }
}

fn all(order: &mut Order, until: u64) -> Vec<(u64, u64)> {
    let pop = || order.pop(Nanos(until));
    let requests = std::iter::from_fn(pop);
    requests
        .map(|request| (request.arrival_ns, request.offset))
        .collect()
}

#[test]
fn requests_are_released_in_order_of_arrival() {
    let mut order = Order::default();
    for request in [at(20, 1), at(10, 2), at(30, 3), at(20, 4)] {
        order.push(request);
    }
    assert_eq!(all(&mut order, 5 * SECOND), []);
    assert_eq!(
        all(&mut order, 5 * SECOND + 20),
        [(10, 2), (20, 1), (20, 4)]
    );
    order.push(at(25, 5));
    let rest: Vec<u64> = std::iter::from_fn(|| order.pop_any())
        .map(|request| request.offset)
        .collect();
    assert_eq!((rest, order.late), (vec![5, 3], 0));
}

#[test]
fn a_request_that_took_too_long_is_moved_and_counted() {
    let mut order = Order::default();
    order.push(at(6 * SECOND, 1));
    assert_eq!(all(&mut order, 11 * SECOND), [(6 * SECOND, 1)]);
    order.push(at(SECOND, 2));
    assert_eq!(all(&mut order, 12 * SECOND), [(6 * SECOND, 2)]);
    assert_eq!(order.late, 1);
}

#[test]
fn memory_is_bounded() {
    let mut order = Order::default();
    for number in 0..HELD_MAX as u64 + 10 {
        order.push(at(number, number));
    }
    assert_eq!(all(&mut order, 0).len(), 10);
}

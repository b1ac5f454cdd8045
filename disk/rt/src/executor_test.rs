use crate::{IdleDriver, Notify, Rt, Semaphore};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::Nanos;

fn rt() -> Rt {
    Rt::new(Box::new(IdleDriver::default()))
}

#[test]
fn timers_fire_in_order_and_time_is_virtual() {
    let rt = rt();
    let seen = Rc::new(RefCell::new(Vec::new()));
    for (name, ms) in [("late", 3_600_000), ("early", 1), ("early too", 1)] {
        let (timers, seen) = (rt.clone(), seen.clone());
        rt.spawn(async move {
            timers.sleep(Nanos::from_millis(ms)).await;
            seen.borrow_mut().push(name);
        });
    }
    let main = rt.clone();
    rt.block_on(async move { main.sleep(Nanos::from_secs(7200)).await });
    assert_eq!(*seen.borrow(), ["early", "early too", "late"]);
    assert_eq!(rt.now(), Nanos::from_secs(7200));
}

#[test]
fn a_notification_wakes_every_waiter_and_none_is_lost() {
    let rt = rt();
    let notify = Notify::new(&rt);
    let before = notify.wait();
    notify.notify();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let wait = notify.wait();
            rt.spawn(wait)
        })
        .collect();
    let ringer = notify.clone();
    rt.spawn(async move { ringer.notify() });
    rt.block_on(async move {
        before.await;
        for waiter in waiters {
            waiter.await;
        }
    });
}

#[test]
fn permits_are_granted_in_order_without_starvation() {
    let rt = rt();
    let memory = Semaphore::new(&rt, 10);
    let order = Rc::new(RefCell::new(Vec::new()));
    let mut tasks = Vec::new();
    for (name, units) in [("a", 6), ("large", 100), ("b", 1), ("c", 9)] {
        let (rt2, memory, order) = (rt.clone(), memory.clone(), order.clone());
        tasks.push(rt.spawn(async move {
            let _permit = memory.acquire(units).await;
            order.borrow_mut().push(name);
            rt2.sleep(Nanos::from_millis(1)).await;
        }));
    }
    rt.block_on(async move {
        for task in tasks {
            task.await;
        }
    });
    assert_eq!(*order.borrow(), ["a", "large", "b", "c"]);
    assert_eq!((memory.used(), memory.waiting()), (0, 0));
}

#[test]
fn missing_units_are_reported_while_demands_wait() {
    let rt = rt();
    let memory = Semaphore::new(&rt, 10);
    assert_eq!(memory.missing(), 0);
    let held = memory.take(7);
    let waiting: Vec<_> = [6, 4]
        .map(|units| {
            let acquire = memory.acquire(units);
            rt.spawn(async move { drop(acquire.await) })
        })
        .into();
    let rt2 = rt.clone();
    rt.block_on(async move {
        rt2.sleep(Nanos::from_millis(1)).await;
        assert_eq!(memory.missing(), 6 + 4 - 3);
        drop(held);
        for task in waiting {
            task.await;
        }
        assert_eq!((memory.missing(), memory.used()), (0, 0));
    });
}

#[test]
fn a_dropped_demand_does_not_block_later_ones() {
    let rt = rt();
    let memory = Semaphore::new(&rt, 10);
    let (own, semaphore) = (rt.clone(), memory.clone());
    rt.block_on(async move {
        let held = semaphore.acquire(6).await;
        let mut large = Box::pin(semaphore.acquire(8));
        let begins = poll_fn(|context| Poll::Ready(large.as_mut().poll(context).is_pending()));
        assert!(begins.await, "it has to wait");
        let waiting = semaphore.clone();
        let small = own.spawn(async move { drop(waiting.acquire(2).await) });
        own.sleep(Nanos::from_millis(1)).await;
        assert_eq!((semaphore.waiting(), small.take()), (2, None));
        drop(large);
        own.sleep(Nanos::from_millis(1)).await;
        assert_eq!((semaphore.waiting(), small.take()), (0, Some(())));
        drop(held);
    });
    assert_eq!(memory.used(), 0);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_deadlock_is_reported() {
    let rt = rt();
    let never = Notify::new(&rt).wait();
    rt.block_on(never);
}

use crate::{IdleDriver, Rt, Watermark};
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};

fn rt() -> Rt {
    Rt::new(Box::new(IdleDriver::default()))
}

#[test]
fn only_tasks_whose_target_is_reached_wake_in_order() {
    let rt = rt();
    let mark = Watermark::new(&rt, 4);
    let ended = Rc::new(RefCell::new(Vec::new()));
    for target in [7, 5, 4, 6, 5] {
        let (mark, ended) = (mark.clone(), ended.clone());
        rt.spawn(async move {
            mark.wait(target).await;
            ended.borrow_mut().push(target);
        });
    }
    let own = rt.clone();
    rt.block_on(async move {
        own.yield_now().await;
        assert_eq!((&*ended.borrow(), mark.lowest()), (&vec![4], Some(5)));
        mark.raise(6);
        own.yield_now().await;
        assert_eq!(*ended.borrow(), [4, 5, 5, 6]);
        assert_eq!(mark.lowest(), Some(7));
        mark.raise(3);
        own.yield_now().await;
        assert_eq!(ended.borrow().len(), 4);
        mark.close();
        own.yield_now().await;
        assert_eq!((ended.borrow().len(), mark.lowest()), (5, None));
        mark.wait(u64::MAX).await;
    });
}

#[test]
fn a_wait_that_is_dropped_is_not_counted() {
    let rt = rt();
    let mark = Watermark::new(&rt, 0);
    rt.block_on(async move {
        let first = mark.wait(1);
        let second = mark.wait(1);
        let third = mark.wait(2);
        drop(first);
        assert_eq!(mark.lowest(), Some(1));
        drop(second);
        assert_eq!(mark.lowest(), Some(2));
        mark.raise(2);
        drop(third);
        assert_eq!(mark.lowest(), None);
    });
}

#[test]
fn a_wait_wakes_the_task_that_polled_it_last() {
    let rt = rt();
    let mark = Watermark::new(&rt, 0);
    let own = rt.clone();
    rt.block_on(async move {
        let mut wait = Box::pin(mark.wait(1));
        let polled = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        let other = own.spawn(async move { pin!(wait).await });
        own.yield_now().await;
        mark.raise(1);
        other.await;
    });
}

use crate::{Contained, IdleDriver, Notify, Rt};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

#[test]
fn panic_of_a_contained_task_ends_it_alone() {
    let rt = Rt::new(Box::new(IdleDriver::default()));
    let (reported, ended) = (Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
    let lines = reported.clone();
    rt.report_panics(move |what| lines.borrow_mut().push(what.to_string()));
    let (notify, own) = (Notify::new(&rt), rt.clone());
    for wait in [false, true] {
        let (notify, ended) = (notify.clone(), ended.clone());
        let (own, what) = (own.clone(), "a connection");
        let what = Contained::new(what, move || ended.set(ended.get() + 1));
        rt.spawn_contained(&what, async move {
            own.engine(async {}).await;
            if wait {
                // It panics at its second poll.
                notify.wait().await;
            }
            panic!("a fault of the front end");
        });
    }
    let other = rt.spawn(async { 7 });
    rt.run_ready();
    assert_eq!((other.take(), ended.get()), (Some(7), 1));
    notify.notify();
    // The slots of the tasks are used again.
    let after = rt.spawn(async { 8 });
    rt.run_ready();
    assert_eq!((after.take(), ended.get()), (Some(8), 2));
    assert_eq!(*reported.borrow(), ["a connection"; 2]);
}

#[test]
fn panic_in_the_engine_is_not_contained() {
    for waits in [false, true] {
        let rt = Rt::new(Box::new(IdleDriver::default()));
        let ended = Rc::new(Cell::new(false));
        let (own, end) = (rt.clone(), ended.clone());
        let notify = Notify::new(&rt);
        let wake = notify.clone();
        let what = Contained::new("a connection", move || end.set(true));
        rt.spawn_contained(&what, async move {
            let call = async {
                if waits {
                    notify.wait().await;
                }
                panic!("a fault of the engine");
            };
            own.engine(call).await;
        });
        let ran = catch_unwind(AssertUnwindSafe(|| {
            rt.run_ready();
            wake.notify();
            rt.run_ready();
        }));
        assert!(ran.is_err() && !ended.get());
    }
}

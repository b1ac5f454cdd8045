//! Faults of the server's own code.

use crate::common::*;
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_nbd::proto::*;

const MINUTE: Nanos = Nanos::from_secs(60);

/// A panic of a connection's task ends that connection, also with requests under way, and no other.
#[test]
fn panic_ends_its_connection_alone() {
    run(world(), |world| async move {
        let reports = Rc::new(Cell::new(0));
        let count = reports.clone();
        world.rt.report_panics(move |_| count.set(count.get() + 1));
        let (mut lost, mut other) = (world.connect(true), world.connect(true));
        // Half of the calls go on for longer than the test.
        world.target.set_delay(Nanos::from_secs(1000));
        for _ in 0..16 {
            let read = lost.request(CMD_READ, 0, 0, 512);
            assert!(lost.send(&read.encode()).await);
        }
        world.rt.sleep(Nanos::from_millis(1)).await;
        world.target.set_panics();
        let read = lost.request(CMD_READ, 0, 0, 512);
        assert!(lost.send(&read.encode()).await);
        while lost.answers().await.is_some() {}
        assert!(lost.waiting() > 1, "the test has some under way");
        assert_eq!(reports.get(), 1);
        world.rt.sleep(MINUTE).await;
        assert_eq!(world.connections.list().len(), 1);
        world.target.set_delay(Nanos(0));
        let read = other.request(CMD_READ, 0, 0, 512);
        assert!(other.call(read, &[]).await.is_some());
        other.close().await;
        assert!(world.all_gone(MINUTE).await);
        assert_eq!(world.connections.metrics().connections_open.get(), 0);
    });
}

//! A file system below the log without space: the record waits, and what comes after it is not durable before it.

use super::fixture::Setup;
use crate::{FlushCause, TrailError};
use std::cell::Cell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::{IoError, Op};

const OTHERS: Nanos = Nanos::from_secs(2);

#[test]
fn refused_record_is_rewritten_and_flushed_with_space() {
    for error in [IoError::ENOSPC, IoError::EDQUOT] {
        for refused in [Op::Write, Op::WriteDurable] {
            let mut setup = Setup::new(8, 64);
            let world = setup.world.clone();
            setup.run(|log| async move {
                let (full, flushes) = (Rc::new(Cell::new(true)), Rc::new(Cell::new(0)));
                let (is_full, count, count_at_end) =
                    (full.clone(), flushes.clone(), flushes.clone());
                // Of the kind alone, so that the second record goes through while the first one waits.
                let mut first = None;
                world.set_fault(move |request| {
                    if request.op == Op::Flush {
                        count.set(count.get() + 1);
                    }
                    if !matches!(request.op, Op::Write | Op::WriteDurable) {
                        return None;
                    }
                    let (at, op) = *first.get_or_insert((request.offset, request.op));
                    assert_eq!(op, refused);
                    (is_full.get() && request.offset == at).then_some(error)
                });
                let wanted = log.space_below_wanted();
                let waits = log.clone();
                // With a caller that waits before the write starts the record is written durably, else not.
                let durable = log.rt.spawn(async move {
                    let lsn = waits.write(0, 1, 1).await;
                    if refused == Op::Write {
                        waits.wait_flushed(lsn).await.unwrap();
                    }
                    waits.wait_durable(lsn, FlushCause::Commit).await?;
                    Ok::<u32, TrailError>(count_at_end.get())
                });
                wanted.await;
                let lsn = log.appended();
                assert!(log.waits_for_space_below());
                let later = log.write(1, 1, 1).await;
                log.rt.sleep(OTHERS).await;
                assert!(log.flushed() < lsn && log.durable() < lsn, "{later:?}");
                log.check().unwrap();
                full.set(false);
                log.rt.sleep(OTHERS).await;
                // The flush in the refused write may have failed. The later record has a flush of its own, so the flushes are
                // counted when the first one is durable.
                assert!(durable.await.unwrap() > 0, "{refused:?}");
                log.wait(later).await;
                assert!(!log.waits_for_space_below());
                log.stop();
            });
        }
    }
}

#[test]
fn other_errors_of_a_repeated_write_fail_the_log() {
    let mut setup = Setup::new(8, 64);
    let world = setup.world.clone();
    setup.run(|log| async move {
        let mut writes = 0;
        world.set_fault(move |request| {
            writes += u32::from(matches!(request.op, Op::Write | Op::WriteDurable));
            match writes {
                0 => None,
                1 => Some(IoError::ENOSPC),
                _ => Some(IoError::EIO),
            }
        });
        let lsn = log.write(0, 1, 1).await;
        let failed = log.wait_durable(lsn, FlushCause::Commit).await;
        assert!(
            failed
                .unwrap_err()
                .to_string()
                .contains("Input/output error")
        );
        log.rt.sleep(OTHERS).await;
        assert!(!log.waits_for_space_below());
    });
}

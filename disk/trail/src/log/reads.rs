//! Reads of a running log whose drives' heads are followed. They come from memory ([`KeptTracks`](super::kept::KeptTracks)), or take
//! their turn with the writes of the drive, whose predictor then knows where the head is.

use super::Trail;
use crate::geometry::DRIVE_SECTOR;
use std::rc::Rc;
use tonearm_device::{Device, DeviceIo, Filter, at_once};
use tonearm_head::Span;
use tonearm_rt::{Data, IoError, Op};

/// A member of such a log, for the readers of its history. They read whole tracks.
pub(super) struct MemberInTurn {
    trail: Trail,
    member: usize,
}

impl MemberInTurn {
    /// The members of `trail`.
    pub fn all(trail: &Trail) -> Vec<Rc<dyn Device>> {
        let member = |member| {
            let trail = trail.clone();
            Rc::new(Self { trail, member }) as Rc<dyn Device>
        };
        (0..trail.0.devices.len()).map(member).collect()
    }
}

impl Filter for MemberInTurn {
    fn inner(&self) -> &dyn Device {
        &*self.trail.0.devices[self.member]
    }

    fn filter_io(&self, op: Op, offset: u64, _: u64, data: Data) -> DeviceIo {
        if op != Op::Read {
            return at_once(Err(IoError::EINVAL), data);
        }
        // A task of its own returns its turn also when its caller is gone.
        let trail = self.trail.clone();
        let read = trail.clone().read_track(self.member, offset, data);
        Box::pin(trail.0.rt.spawn(read))
    }
}

impl Trail {
    async fn read_track(
        self,
        member: usize,
        offset: u64,
        data: Data,
    ) -> (Result<usize, IoError>, Data) {
        let inner = &*self.0;
        let mut track = data.into_buf();
        let sectors = Span {
            start: offset / DRIVE_SECTOR,
            end: (offset + track.len() as u64) / DRIVE_SECTOR,
        };
        let turn = {
            let state = inner.state.borrow();
            if state.kept.read((member, offset), &mut track) {
                let bytes = track.len();
                return (Ok(bytes), Data::whole(track));
            }
            state.heads[member].turn.clone()
        };
        let permit = turn.acquire(1).await;
        let sent = inner.rt.now();
        let read = inner.devices[member].io(Op::Read, offset, 0, Data::whole(track));
        let (result, data) = read.await;
        let track = data.into_buf();
        {
            let mut guard = inner.state.borrow_mut();
            let state = &mut *guard;
            state.stats.tracks_read += 1;
            state.heads[member].moved_to = None;
            if result.is_ok() && state.current_place() == (member, offset) {
                state.kept.begin_with((member, offset), &track);
            }
        }
        self.request_done(
            member,
            permit,
            sectors,
            sent,
            result.is_ok(),
            |head, read| head.read(read),
        );
        inner.work.notify();
        (result, Data::whole(track))
    }
}

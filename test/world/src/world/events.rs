//! The events of a world, which tasks or other threads raise. What waits for one ends at the moment at which the driver looks.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use tonearm_rt::{Completion, Data, DeviceId, IoError, Notifier, Op, Request};

/// Events have the numbers from this one on, drives those before it.
const FIRST: u32 = 1 << 31;
/// ECANCELED: the event was closed.
const CLOSED: IoError = IoError { errno: 125 };

/// The events of a driver.
#[derive(Default)]
pub(super) struct Events {
    open: BTreeMap<DeviceId, Event>,
    made: u32,
    /// Of closed events.
    ended: Vec<Completion>,
}

struct Event {
    raised: Receiver<()>,
    wait: Option<(u64, Data)>,
}

impl Events {
    /// Adds one.
    pub fn add(&mut self) -> (DeviceId, Notifier) {
        let id = DeviceId(FIRST + self.made);
        let (raise, raised) = channel();
        self.made += 1;
        self.open.insert(id, Event { raised, wait: None });
        let raise = move || {
            // It may be closed.
            let _ = raise.send(());
        };
        (id, Notifier::new(raise))
    }

    /// Takes an operation on an event; gives back one on a drive.
    pub fn submit(&mut self, token: u64, request: Request) -> Option<Request> {
        let id = request.device;
        if id.0 < FIRST {
            return Some(request);
        }
        let event = self.open.get_mut(&id).expect("an open event");
        if request.op == Op::Recv {
            event.wait = Some((token, request.data));
            return None;
        }
        let wait = event.wait.take();
        self.open.remove(&id);
        self.ended
            .extend(wait.map(|(token, data)| completion(token, Err(CLOSED), data)));
        self.ended.push(completion(token, Ok(0), Data::None));
        None
    }

    /// Takes what has ended.
    pub fn take(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.ended);
        for event in self.open.values_mut() {
            if event.wait.is_some() && event.raised.try_iter().count() > 0 {
                let wait = event.wait.take();
                completions.extend(wait.map(|(token, data)| completion(token, Ok(8), data)));
            }
        }
    }
}

fn completion(token: u64, result: Result<usize, IoError>, data: Data) -> Completion {
    Completion {
        token,
        result,
        data,
    }
}

//! Carries out requests. Each is a task of the engine, several go on at a time.

use crate::message::{Answer, Operation, Request, STOPPED};
use crate::metrics::Metrics;
use crate::notices::{Notice, Then};
use crate::operations::{Context, perform};
use crate::queue::Incoming;
use crate::translate::errno;
use crate::units::{Place, Units};
use rustix::io::Errno;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::Sender;
use tonearm_base::Nanos;
use tonearm_fs::{Fs, FsError, Invalidation, Unit, UnitCounts};
use tonearm_requests::UnderWay;
use tonearm_rt::{Contained, Notify, Permit, Rt, Semaphore};

/// Memory that requests under way may take. One more request is taken when it is used up.
const UNDER_WAY_BYTES: u64 = 64 << 20;

/// The server of one mount; clones are handles.
#[derive(Clone)]
pub struct FuseServer(Rc<State>);

struct State {
    fs: Fs,
    rt: Rt,
    metrics: Metrics,
    under_way: Semaphore,
    /// Those of all front ends.
    all_under_way: UnderWay,
    stopping: Cell<bool>,
    /// A request has ended.
    ended: Notify,
    /// Requests have come, or the server stops.
    arrived: Notify,
    units: Rc<Units>,
    notices: Sender<Notice>,
    /// Requests. One that has no answer gets EIO from its transport.
    contained: Contained,
}

impl FuseServer {
    /// Serves what comes through `incoming`, whose `wake` notifies `arrived`. Its requests are among those `under_way`.
    pub fn start(
        fs: &Fs,
        rt: &Rt,
        arrived: &Notify,
        incoming: Incoming,
        under_way: &UnderWay,
    ) -> Self {
        let ended = Notify::new(rt);
        let server = Self(Rc::new(State {
            fs: fs.clone(),
            rt: rt.clone(),
            metrics: Metrics::default(),
            under_way: Semaphore::new(rt, UNDER_WAY_BYTES),
            all_under_way: under_way.clone(),
            stopping: Cell::new(false),
            ended: ended.clone(),
            arrived: arrived.clone(),
            units: Rc::new(Units::new(incoming.shared.clone(), rt)),
            notices: incoming.notices.clone(),
            contained: Contained::new("a request of the mount", move || ended.notify()),
        }));
        let notices = server.0.notices.clone();
        fs.watch_sessions(move |Invalidation { files, names }| {
            let then = None;
            // Without the thread that takes it the mount has ended.
            let _ = notices.send(Notice { files, names, then });
        });
        rt.spawn_detached(server.clone().take_all(incoming));
        server
    }

    /// What was asked for.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Units of programs.
    pub fn units(&self) -> UnitCounts {
        self.0.fs.unit_counts()
    }

    /// Takes no more requests, aborts open units, and waits until the requests under way are answered. Later requests get an
    /// error. False when some still go on after `grace`; the end of the store ends them.
    pub async fn shut_down(&self, grace: Nanos) -> bool {
        self.0.stopping.set(true);
        self.0.arrived.notify();
        for unit in self.0.units.take_all() {
            unit.abort();
        }
        let until = self.0.rt.now() + grace.0;
        loop {
            let ended = self.0.ended.wait();
            if self.0.under_way.used() == 0 {
                return true;
            }
            if self.0.rt.now() > until {
                return false;
            }
            ended.until(until + 1).await;
        }
    }

    async fn take_all(self, incoming: Incoming) {
        let State {
            rt,
            under_way,
            arrived,
            contained,
            ..
        } = &*self.0;
        while !self.0.stopping.get() {
            let Some(request) = incoming.next() else {
                arrived.wait().await;
                continue;
            };
            let permit = under_way.acquire(request.operation.cost()).await;
            if self.0.stopping.get() {
                request.reply.send(Err(STOPPED));
                break;
            }
            rt.spawn_contained(contained, self.clone().answer(request, permit));
        }
        // A request that came too late has given its memory back.
        self.0.ended.notify();
        incoming.refuse_all();
        self.0.fs.watch_sessions(|_| {});
        self.0.fs.close_handles();
    }

    async fn answer(self, request: Request, permit: Permit) {
        let State { rt, metrics, .. } = &*self.0;
        let (kind, began) = (request.operation.kind(), rt.now());
        let _begun = self.0.all_under_way.begin(began);
        let ended = match request.operation {
            Operation::Commit { .. } | Operation::Abort => self.end_unit(request).await,
            _ => Some(self.carry_out(request).await),
        };
        if let Some(bytes) = ended {
            metrics.count(kind, bytes, rt.now().since(began).0);
        }
        drop(permit);
        self.0.ended.notify();
    }

    /// Carries a request out and answers it. Gives the bytes of content, `None` for an error.
    async fn carry_out(&self, request: Request) -> Option<u64> {
        let State { rt, fs, units, .. } = &*self.0;
        let place = match request.operation {
            Operation::Close { .. } => {
                if let Some(unit) = units.close_handle(request.handle) {
                    self.abort(&unit);
                }
                Ok(Place::Committed)
            }
            _ => units.place(&request),
        };
        let mut reply = request.reply;
        let is_outdated_by = request.operation.is_outdated_by();
        let is_change = fs.is_durable_at_once() && request.operation.changes();
        let result = match place {
            Ok(place) => {
                let context = Context {
                    committed: fs,
                    units,
                    notices: &self.0.notices,
                    by: request.caller,
                    member: request.member,
                    handle: request.handle,
                    place,
                };
                // The end of a unit is what makes its changes durable.
                let is_durable = is_change && matches!(context.place, Place::Committed);
                let performed = async {
                    let answer = perform(&context, request.operation, &mut *reply).await?;
                    if is_durable {
                        fs.sync(None).await?;
                    }
                    Ok(answer)
                };
                rt.engine(performed).await
            }
            Err(error) => Err(error),
        };
        let bytes = result.as_ref().ok().map(Answer::bytes);
        reply.send(result.map_err(|error| {
            if is_outdated_by(&error) {
                Errno::STALE
            } else {
                errno(&error)
            }
        }));
        bytes
    }

    /// Ends a unit: the kernel forgets what it keeps of the unit's files, the unit takes effect, and the kernel forgets again
    /// what the notices of the meantime name. So no program that sees a new state finds an older one in the kernel afterwards. Gives
    /// what `carry_out` gives, or nothing while notices go to the kernel.
    async fn end_unit(&self, request: Request) -> Option<Option<u64>> {
        let State { units, notices, .. } = &*self.0;
        let (commits, is_notified) = match request.operation {
            Operation::Commit { is_notified } => (true, is_notified),
            _ => (false, true),
        };
        let files = units.find(request.handle).map(|unit| unit.changed());
        if let (Ok(files), false) = (&files, is_notified) {
            let then = Some(Then::Ask(Box::new(Request {
                operation: Operation::Commit { is_notified: true },
                ..request
            })));
            let (files, names) = (files.clone(), Vec::new());
            // Without the thread that takes it the mount has ended, and nobody waits for the answer.
            let _ = notices.send(Notice { files, names, then });
            return None;
        }
        let result = match units.take_begun(request.handle) {
            Ok((number, unit)) => {
                let result = if commits {
                    self.0.rt.engine(self.commit(&unit)).await
                } else {
                    unit.abort();
                    Ok(())
                };
                // Its files can be used outside of the unit.
                units.release_handles(number);
                result
            }
            // A unit that is gone needs no further end.
            Err(_) if !commits => Ok(()),
            Err(error) => Err(error),
        };
        let bytes = result.as_ref().ok().map(|()| 0);
        let result = result.map_err(|error| errno(&error));
        let then = Some(Then::Answer(request.reply, result));
        let (files, names) = (files.unwrap_or_default(), Vec::new());
        let _ = notices.send(Notice { files, names, then });
        Some(bytes)
    }

    async fn commit(&self, unit: &Unit) -> Result<(), FsError> {
        let lsn = unit.commit().await?;
        Ok(self.0.fs.disk().wait_durable(lsn).await?)
    }

    /// Ends a unit without effect, because the descriptor is closed on which it was begun.
    fn abort(&self, unit: &Unit) {
        let files = unit.changed();
        unit.abort();
        // Without the thread that takes it the mount has ended.
        let _ = self.0.notices.send(Notice {
            files,
            ..Notice::default()
        });
    }
}

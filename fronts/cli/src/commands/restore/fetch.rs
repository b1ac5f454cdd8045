//! Objects of an archive, fetched ahead of their use.

use super::patient::Reader;
use std::sync::mpsc::{Receiver, sync_channel};
use tonearm_archive::{Plan, PlannedObject};
use tonearm_terminal::progress::{Progress, Unit};

/// Threads that fetch objects; each has one object ready and one under way.
const FETCHERS: usize = 4;
/// Objects after which it is noted how far a restore is.
const NOTE_EVERY: usize = 16;
/// Name and payload of an object.
type Fetched = anyhow::Result<(String, Vec<u8>)>;

/// The payloads of the objects, in order. Several are fetched at the same time.
pub(super) fn fetch(
    bucket: &Reader,
    objects: &[PlannedObject],
) -> impl Iterator<Item = Fetched> + use<> {
    let fetchers = FETCHERS.min(objects.len().max(1));
    let queues: Vec<Receiver<Fetched>> = (0..fetchers)
        .map(|first| {
            let (sender, receiver) = sync_channel(1);
            let own: Vec<PlannedObject> = objects
                .iter()
                .skip(first)
                .step_by(fetchers)
                .cloned()
                .collect();
            let bucket = bucket.clone();
            std::thread::spawn(move || {
                for object in own {
                    let fetched = bucket.block_on(object.fetch(&bucket));
                    let fetched = fetched.map(|payload| (object.name, payload));
                    // The restore may have ended with an error.
                    if sender.send(fetched.map_err(Into::into)).is_err() {
                        return;
                    }
                }
            });
            receiver
        })
        .collect();
    let count = objects.len();
    (0..count).map(move |index| {
        let received = queues[index % fetchers].recv();
        received.unwrap_or_else(|_| Err(anyhow::anyhow!("a thread that fetches has ended")))
    })
}

/// Applies the objects of `plan` behind the first `done` to `state`, in order. When the last argument of `apply` is true, what is
/// applied must be on the disk when it returns: then `noted` notes how many objects that are.
pub(super) fn apply<T>(
    bucket: &Reader,
    plan: &Plan,
    mut done: usize,
    mut state: T,
    apply: impl Fn(T, String, Vec<u8>, bool) -> anyhow::Result<T>,
    noted: impl Fn(usize) -> anyhow::Result<()>,
) -> anyhow::Result<T> {
    let mut bar = Progress::new("restoring", Unit::Count);
    let total = plan.objects.len() as u64;
    for fetched in fetch(bucket, &plan.objects[done..]) {
        let (name, payload) = fetched?;
        done += 1;
        let is_noted = done.is_multiple_of(NOTE_EVERY);
        state = apply(state, name, payload, is_noted)?;
        if is_noted {
            noted(done)?;
        }
        bar.at(done as u64, total);
    }
    Ok(state)
}

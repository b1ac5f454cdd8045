//! Every interleaving of the state's events, for two and three threads with a model of the engine. At most one thread
//! leads, no wake-up is lost, and all jobs can still end from each state that can be reached.

use super::{State, Step, Terminal, Thread, Turn, WaiterId, Wake};
use std::collections::HashMap;
use tonearm_base::Nanos;

/// A timer of the model: due soon.
const SPAN: Nanos = Nanos::from_micros(500);
/// The token of the operations that a job leaves behind.
const LEFT: u8 = 100;

/// What a thread does. `explore_test.rs` does the same with real jobs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Act {
    Look,
    Commit,
    TwoCommits,
    Read,
    Sleep,
    Follow,
    Leave,
    Break,
    Close,
}

const ALONE: [Act; 5] = [
    Act::Look,
    Act::Commit,
    Act::TwoCommits,
    Act::Read,
    Act::Sleep,
];

/// An act of a thread, whose number is the token of its operations.
type Job = (Act, u8);
type Threads = State<Job, u8, u8>;

/// Where a thread is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum At {
    /// Before its next act.
    Between,
    /// It got a step.
    Answered(Step<u8>),
    /// The leader has run the engine. True: the engine has panicked.
    Ran(bool),
    /// It waits on its condition variable, no longer than until a time.
    Asleep(Option<Nanos>),
    /// It is to take the engine down. After `gone` it goes on with its job.
    Ending {
        asleep: bool,
        closes: bool,
    },
    Finished,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ThreadModel {
    at: At,
    id: Option<WaiterId>,
    /// Acts that are left. The first one is under way unless the thread is between two.
    acts: Vec<Act>,
    /// Its condition variable was notified while it slept.
    notified: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct EngineModel {
    gone: bool,
    waiters: Vec<(u8, WaiterId, u8)>,
    submitted: Vec<u8>,
    completed: Vec<u8>,
    timers: Vec<(Nanos, u8)>,
    following: Vec<u8>,
    commits: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Model {
    state: Threads,
    turn: Turn<Job, u8, u8>,
    engine: EngineModel,
    /// The last one is the timer thread, if there is one.
    threads: Vec<ThreadModel>,
    timer_thread: Option<usize>,
    clock: Nanos,
    interrupted: bool,
}

impl EngineModel {
    /// A turn of the leader. False: it has panicked.
    fn run(&mut self, turn: &mut Turn<Job, u8, u8>, clock: Nanos) -> bool {
        assert!(!self.gone);
        let mut ended: Vec<u8> = turn.made.drain(..).collect();
        for (id, (act, thread)) in std::mem::take(&mut turn.jobs) {
            let mut parts = 1;
            match act {
                Act::Look => ended.push(thread),
                Act::Commit | Act::Close => turn.calls.push_back(thread),
                Act::TwoCommits => {
                    parts = 2;
                    turn.calls.extend([thread, thread]);
                }
                Act::Read => self.submitted.push(thread),
                Act::Sleep => self.timers.push((clock + SPAN.0, thread)),
                Act::Follow if self.commits > 0 => ended.push(thread),
                Act::Follow => self.following.push(thread),
                Act::Leave => {
                    self.submitted.push(LEFT);
                    ended.push(thread);
                }
                Act::Break => return false,
            }
            self.waiters.push((thread, id, parts));
        }
        for token in std::mem::take(&mut self.completed) {
            match token {
                LEFT => turn.calls.push_back(LEFT),
                token => ended.push(token),
            }
        }
        let due = |(at, _): &(Nanos, u8)| *at <= clock;
        ended.extend(
            self.timers
                .iter()
                .filter(|timer| due(timer))
                .map(|timer| timer.1),
        );
        self.timers.retain(|timer| !due(timer));
        let mut next = 0;
        while let Some(token) = ended.get(next).copied() {
            next += 1;
            let waiter = self.waiters.iter_mut().find(|waiter| waiter.0 == token);
            // Followers go on when any operation has ended.
            self.commits = 1;
            ended.append(&mut self.following);
            let Some((_, id, parts)) = waiter else {
                continue;
            };
            *parts -= 1;
            if *parts == 0 {
                turn.done.push(*id);
                self.waiters.retain(|waiter| waiter.0 != token);
            }
        }
        turn.ring_busy = !self.submitted.is_empty();
        turn.timer = self.timers.iter().map(|timer| timer.0).min();
        turn.now = clock;
        true
    }
}

impl Model {
    fn new(threads: &[&[Act]], timer_thread: bool) -> Self {
        let acts = threads.iter().map(|acts| acts.to_vec());
        let mut threads: Vec<_> = acts
            .map(|acts| ThreadModel {
                at: At::Between,
                id: None,
                acts,
                notified: false,
            })
            .collect();
        let mut state = State::new();
        if timer_thread {
            threads.push(ThreadModel {
                at: At::Answered(state.next(Thread::Timer)),
                id: None,
                acts: Vec::new(),
                notified: false,
            });
        }
        Self {
            state,
            turn: Turn::default(),
            engine: EngineModel::default(),
            timer_thread: timer_thread.then(|| threads.len() - 1),
            threads,
            clock: Nanos(0),
            interrupted: false,
        }
    }

    /// Every job has ended, and so has what the jobs left behind if a thread handles it.
    fn is_finished(&self) -> bool {
        let is_finished = |(number, thread): (usize, &ThreadModel)| {
            Some(number) == self.timer_thread || thread.at == At::Finished
        };
        let left = self.engine.submitted.len() + self.engine.completed.len();
        self.threads.iter().enumerate().all(is_finished)
            && (self.timer_thread.is_none() || self.engine.gone || left == 0)
    }

    /// The states that one event leads to.
    fn successors(&self) -> Vec<Model> {
        let mut all = Vec::new();
        for index in 0..self.engine.submitted.len() {
            let mut next = self.clone();
            let token = next.engine.submitted.remove(index);
            next.engine.completed.push(token);
            all.push(next);
        }
        let timer = self.engine.timers.iter().map(|timer| timer.0).min();
        if let Some(timer) = timer
            && timer > self.clock
        {
            let mut next = self.clone();
            next.clock = timer;
            all.push(next);
        }
        for number in 0..self.threads.len() {
            let mut next = self.clone();
            if next.advance(number) {
                next.deliver();
                all.push(next);
            }
        }
        all
    }

    /// Delivers the wakes of an event.
    fn deliver(&mut self) {
        for wake in self.state.take_wakes() {
            let wanted = |thread: &ThreadModel, timer: bool| match wake {
                Wake::Parked(id) => thread.id == Some(id) && matches!(thread.at, At::Asleep(_)),
                Wake::Timer => timer && matches!(thread.at, At::Asleep(_)),
                Wake::Ender => matches!(thread.at, At::Ending { asleep: true, .. }),
                Wake::Watcher => false,
            };
            self.interrupted |= wake == Wake::Watcher;
            for (number, thread) in self.threads.iter_mut().enumerate() {
                let timer = Some(number) == self.timer_thread;
                thread.notified |= wanted(thread, timer);
            }
        }
    }

    fn who(&self, number: usize) -> Thread {
        match self.threads[number].id {
            Some(id) => Thread::Waiter(id),
            None => Thread::Timer,
        }
    }

    /// Gives thread `number` its step. The leader takes its work under the same lock.
    fn apply(&mut self, number: usize, step: Step<u8>) {
        if step == Step::Lead {
            let leads =
                |thread: &ThreadModel| matches!(thread.at, At::Answered(Step::Lead) | At::Ran(_));
            let others = self.threads.iter().enumerate();
            let others = others.filter(|(other, thread)| *other != number && leads(thread));
            assert_eq!(others.count(), 0, "two threads lead: {self:#?}");
            self.state.take_work(&mut self.turn);
        }
        self.threads[number].at = At::Answered(step);
    }

    fn woken(&mut self, number: usize) {
        let step = match self.who(number) {
            Thread::Waiter(id) => self.state.woken(id, self.clock),
            Thread::Timer => self.state.timer_woken(self.clock),
        };
        self.apply(number, step);
    }

    /// The act of a thread has ended.
    fn ended(&mut self, number: usize) {
        let thread = &mut self.threads[number];
        thread.id = None;
        thread.acts.remove(0);
        thread.at = At::Between;
    }

    /// The next event of a thread; false where it has none.
    fn advance(&mut self, number: usize) -> bool {
        let who = self.who(number);
        let at = self.threads[number].at.clone();
        match at {
            At::Finished => return false,
            At::Between => {
                let Some(act) = self.threads[number].acts.first().copied() else {
                    self.threads[number].at = At::Finished;
                    return true;
                };
                let closes = act == Act::Close;
                if closes && self.state.close().is_err() {
                    self.ended(number);
                    return true;
                }
                match self.state.begin((act, number as u8), closes) {
                    Ok((id, step)) => {
                        self.threads[number].id = Some(id);
                        self.apply(number, step);
                    }
                    Err(_) => self.ended(number),
                }
            }
            At::Answered(Step::Lead) => {
                let ran = self.engine.run(&mut self.turn, self.clock);
                self.threads[number].at = At::Ran(!ran);
            }
            At::Ran(false) => {
                let step = self.state.turned(who, &mut self.turn);
                self.apply(number, step);
            }
            At::Ran(true) => {
                let jobs = self.state.end(Terminal::Panicked);
                self.state.give_up(&mut self.turn);
                match jobs {
                    Some(_) => {
                        self.threads[number].at = At::Ending {
                            asleep: false,
                            closes: false,
                        };
                    }
                    None => {
                        let step = self.state.next(who);
                        self.apply(number, step);
                    }
                }
            }
            At::Answered(Step::Call(call)) => {
                assert!(!self.engine.gone, "the memory of a call is gone");
                let step = self.state.called(who, call);
                self.apply(number, step);
            }
            At::Answered(Step::Watch(until)) => {
                let due = until.is_some_and(|until| until <= self.clock);
                if self.engine.completed.is_empty() && !self.interrupted && !due {
                    return false;
                }
                self.interrupted = false;
                self.woken(number);
            }
            At::Answered(Step::Park { until, briefly }) => {
                let woken = match who {
                    Thread::Waiter(id) => {
                        self.state.is_woken(id) || briefly && !self.state.is_led()
                    }
                    Thread::Timer => self.state.is_timer_woken(),
                };
                if woken {
                    self.woken(number)
                } else {
                    self.threads[number].at = At::Asleep(until)
                }
            }
            At::Asleep(until) => {
                let due = until.is_some_and(|until| until <= self.clock);
                if !due && !self.threads[number].notified {
                    return false;
                }
                self.threads[number].notified = false;
                self.woken(number);
            }
            At::Answered(Step::TimerWait) => self.woken(number),
            At::Answered(Step::Done) if who == Thread::Timer => {
                self.threads[number].at = At::Finished;
            }
            At::Answered(Step::Done) if self.threads[number].acts[0] == Act::Close => {
                return self.end(number);
            }
            At::Answered(Step::Terminal(_)) if self.threads[number].acts[0] == Act::Close => {
                return self.end(number);
            }
            At::Answered(Step::Done | Step::Terminal(_)) => self.ended(number),
            At::Ending { asleep, closes } => {
                if asleep && !self.threads[number].notified {
                    return false;
                }
                self.threads[number].notified = false;
                if !self.state.may_end() {
                    let asleep = true;
                    self.threads[number].at = At::Ending { asleep, closes };
                    return true;
                }
                assert!(!self.engine.gone, "it is taken down once");
                self.engine.gone = true;
                self.state.gone();
                if closes {
                    self.ended(number)
                } else {
                    let step = self.state.next(who);
                    self.apply(number, step);
                }
            }
        }
        true
    }

    /// The last job of a close has ended.
    fn end(&mut self, number: usize) -> bool {
        match self.state.end(Terminal::Closed) {
            Some(_) => {
                self.threads[number].at = At::Ending {
                    asleep: false,
                    closes: true,
                };
            }
            None => self.ended(number),
        }
        true
    }
}

/// Visits all states that can be reached, and checks that the end can be reached from each.
fn check(threads: &[&[Act]], timer_thread: bool) -> usize {
    let first = Model::new(threads, timer_thread);
    let mut numbers = HashMap::from([(first.clone(), 0)]);
    let mut states = vec![first];
    let mut before: Vec<Vec<usize>> = vec![Vec::new()];
    let mut next = 0;
    while next < states.len() {
        for successor in states[next].successors() {
            let number = *numbers.entry(successor.clone()).or_insert(states.len());
            if number == states.len() {
                states.push(successor);
                before.push(Vec::new());
            }
            before[number].push(next);
        }
        next += 1;
        assert!(next < 2_000_000, "{threads:?}: the model has no end");
    }
    let mut ends = vec![false; states.len()];
    let finished = (0..states.len()).filter(|number| states[*number].is_finished());
    let mut found: Vec<usize> = finished.collect();
    found.iter().for_each(|number| ends[*number] = true);
    while let Some(number) = found.pop() {
        for before in &before[number] {
            if !std::mem::replace(&mut ends[*before], true) {
                found.push(*before);
            }
        }
    }
    if let Some(stuck) = ends.iter().position(|ends| !ends) {
        panic!("{threads:?}: a thread waits for ever: {:#?}", states[stuck]);
    }
    states.len()
}

#[test]
fn two_threads_without_the_timer_thread() {
    for first in ALONE {
        for second in ALONE {
            check(&[&[first], &[second]], false);
            check(&[&[first, Act::Commit], &[second]], false);
        }
        check(&[&[first, Act::Follow], &[Act::Commit]], false);
    }
}

#[test]
fn three_threads_without_the_timer_thread() {
    let mut states = 0;
    let acts = [Act::Look, Act::Commit, Act::Read, Act::Sleep];
    for (index, first) in acts.into_iter().enumerate() {
        for second in &acts[index..] {
            states += check(&[&[first], &[*second], &[Act::Commit]], false);
        }
        states += check(&[&[first], &[Act::Commit], &[Act::Follow]], false);
    }
    assert!(states > 100_000, "{states} states are too few");
}

#[test]
fn work_left_in_the_executor_is_completed() {
    check(&[&[Act::Leave]], true);
    check(&[&[Act::Leave], &[Act::Leave]], true);
    for other in ALONE.into_iter().chain([Act::Follow]) {
        check(&[&[Act::Leave], &[other]], true);
        check(&[&[Act::Leave], &[other]], false);
    }
    check(&[&[Act::Leave], &[Act::Follow], &[Act::Read]], false);
}

#[test]
fn a_close_meets_jobs() {
    let others = [Act::Leave, Act::Close, Act::Follow];
    for other in ALONE.into_iter().chain(others) {
        check(&[&[Act::Close], &[other]], true);
        check(&[&[Act::Close], &[other], &[Act::Commit]], false);
    }
}

#[test]
fn a_panic_of_the_engine_ends_all() {
    let others = [Act::Leave, Act::Close, Act::Follow, Act::Break];
    for other in ALONE.into_iter().chain(others) {
        check(&[&[Act::Break], &[other]], true);
        check(&[&[Act::Break], &[other], &[Act::Commit]], false);
    }
    check(&[&[Act::Break], &[Act::Commit], &[Act::Close]], false);
}

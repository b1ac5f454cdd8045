//! The states of a store by commit, and those that may be found after a power cut: the state after one of the commits, which
//! is not before the last one that was acknowledged as durable.

use std::rc::Rc;

/// Number of states, and of their differences, in the text about a state that may not be found.
const SHOWN: usize = 5;

/// A state of a store.
pub trait State: PartialEq {
    /// What `found` has in place of what this state has.
    fn differences(&self, found: &Self) -> Vec<String>;
}

/// The states of a store since its opening.
#[derive(Clone)]
pub struct History<S> {
    /// The state at the start, and after each commit.
    states: Vec<Rc<S>>,
    /// The last commit that was acknowledged as durable.
    durable: u64,
}

impl<S: Default> Default for History<S> {
    fn default() -> Self {
        Self {
            states: vec![Rc::default()],
            durable: 0,
        }
    }
}

impl<S: State> History<S> {
    /// The history of a store with this state.
    pub fn new(start: S) -> Self {
        let states = vec![Rc::new(start)];
        Self { states, durable: 0 }
    }

    /// The newest state.
    pub fn now(&self) -> Rc<S> {
        self.states[self.states.len() - 1].clone()
    }

    /// Number of commits so far.
    pub fn last(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// Adds the state after a commit. Returns its number.
    pub fn commit(&mut self, state: S) -> u64 {
        self.states.push(Rc::new(state));
        self.last()
    }

    /// All commits up to `number` have been acknowledged as durable.
    pub fn acknowledge(&mut self, number: u64) {
        self.durable = self.durable.max(number);
    }

    /// Number of the newest state that `found` may be.
    ///
    /// # Errors
    /// When it may not be found.
    pub fn judge(&self, found: &S) -> Result<u64, String> {
        let may_be = (self.durable..=self.last()).rev();
        let mut fits = may_be.filter(|number| *self.states[*number as usize] == *found);
        fits.next().ok_or_else(|| self.explain(found))
    }

    fn explain(&self, found: &S) -> String {
        let states = self.states.iter().enumerate().rev();
        let mut wrong: Vec<(usize, Vec<String>)> = states
            .map(|(number, state)| (number, state.differences(found)))
            .collect();
        wrong.sort_by_key(|(_, differences)| differences.len());
        let near = |(number, differences): &(usize, Vec<String>)| {
            let some = &differences[..differences.len().min(SHOWN)];
            format!(" after {number}: {};", some.join(", "))
        };
        let nearest: String = wrong.iter().take(SHOWN).map(near).collect();
        let (durable, last) = (self.durable, self.last());
        format!("no state from {durable} (durable) to {last} fits; the nearest are{nearest}")
    }

    /// State `number` becomes the start of the next generation.
    pub fn go_on(&mut self, number: u64) {
        self.states = vec![self.states[number as usize].clone()];
        self.durable = 0;
    }
}

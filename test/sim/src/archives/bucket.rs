//! A bucket in memory.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_archive::{Bucket, BucketError, Bytes, KeyError, Keys};
use tonearm_base::Nanos;
use tonearm_rt::{Boxed, Rt};

/// Longest time of half a request to an ordinary bucket, in nanoseconds.
pub const DELAY: u64 = 3_000_000;

/// Objects of a bucket by name.
pub type Objects = Rc<RefCell<BTreeMap<String, Bytes>>>;

/// A bucket in memory. Requests take time, and some fail, before or after they have been carried out.
pub struct SimBucket {
    /// Its clock.
    pub rt: Rt,
    /// What it has.
    pub objects: Objects,
    /// Chooses delays and faults.
    pub random: RefCell<ChaCha8Rng>,
    /// One of so many requests fails; 0 for none.
    pub faults: u32,
    /// Of so many answers one is wrong, and the next one to the same question need not be: a put of a name that is free is
    /// refused and nothing is stored, an object that is there is not found, a list lacks a name. 0 for none.
    pub lies: u32,
    /// The last so many objects are not listed.
    pub lag: usize,
    /// Longest time of half a request, in nanoseconds.
    pub delay: u64,
    /// A put replaces an object of its name.
    pub replaces: bool,
    /// How it encrypts and decrypts.
    pub keys: SimKeys,
}

impl SimBucket {
    /// A bucket without faults.
    pub fn sound(rt: &Rt, objects: &Objects) -> Self {
        Self {
            rt: rt.clone(),
            objects: objects.clone(),
            random: RefCell::new(ChaCha8Rng::seed_from_u64(1)),
            faults: 0,
            lies: 0,
            lag: 0,
            delay: DELAY,
            replaces: false,
            keys: SimKeys::READER,
        }
    }

    async fn delay(&self) {
        let nanos = self.random.borrow_mut().next_u64() % self.delay;
        self.rt.sleep(Nanos(nanos)).await;
    }

    fn strikes(&self) -> bool {
        self.one_of(self.faults)
    }

    fn one_of(&self, count: u32) -> bool {
        count > 0 && self.random.borrow_mut().next_u32().is_multiple_of(count)
    }

    /// Which of `count` answers is wrong.
    fn lie(&self, count: usize) -> Option<usize> {
        let lies = count > 0 && self.one_of(self.lies);
        lies.then(|| self.random.borrow_mut().next_u32() as usize % count)
    }

    /// Carries out `work` after a while, or fails before or after it.
    async fn request<T>(
        &self,
        work: impl FnOnce(&mut BTreeMap<String, Bytes>) -> T,
    ) -> Result<T, BucketError> {
        self.delay().await;
        if self.strikes() {
            return Err(BucketError::Transient("the request was lost".into()));
        }
        let done = work(&mut self.objects.borrow_mut());
        self.delay().await;
        match self.strikes() {
            true => Err(BucketError::Transient("the answer was lost".into())),
            false => Ok(done),
        }
    }
}

impl Bucket for SimBucket {
    fn put_new<'a>(&'a self, name: &'a str, object: Bytes) -> Boxed<'a, Result<bool, BucketError>> {
        Box::pin(self.request(move |objects| {
            let is_free = self.replaces || !objects.contains_key(name);
            let is_new = is_free && self.lie(1).is_none();
            if is_new {
                objects.insert(name.to_string(), object);
            }
            is_new
        }))
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        most: u64,
    ) -> Boxed<'a, Result<Option<Vec<u8>>, BucketError>> {
        Box::pin(self.request(move |objects| {
            let object = objects.get(name).filter(|_| self.lie(1).is_none());
            object.map(|object| object[..object.len().min(most as usize + 1)].to_vec())
        }))
    }

    fn heads<'a>(
        &'a self,
        names: &'a [String],
        bytes: usize,
    ) -> Boxed<'a, Result<Vec<Option<Vec<u8>>>, BucketError>> {
        Box::pin(self.request(move |objects| {
            let lie = self.lie(names.len());
            let heads = names.iter().enumerate().map(|(at, name)| {
                let object = objects.get(name).filter(|_| lie != Some(at))?;
                object.get(..bytes).map(<[u8]>::to_vec)
            });
            heads.collect()
        }))
    }

    fn list<'a>(&'a self, folder: &'a str) -> Boxed<'a, Result<Vec<String>, BucketError>> {
        let lag = self.lag;
        Box::pin(self.request(move |objects| {
            let prefix = format!("{folder}/");
            let names = objects.keys().filter(|name| name.starts_with(&prefix));
            let mut names: Vec<String> = names.cloned().collect();
            names.truncate(names.len().saturating_sub(lag));
            if let Some(lie) = self.lie(names.len()) {
                names.remove(lie);
            }
            names
        }))
    }

    fn delete<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<(), BucketError>> {
        Box::pin(self.request(move |objects| {
            objects.remove(name);
        }))
    }

    fn url(&self) -> String {
        "sim://archive".into()
    }

    fn keys(&self) -> &dyn Keys {
        &self.keys
    }
}

/// What an encrypted payload begins with.
pub const ENCRYPTED: &[u8] = b"encrypted";
/// A simulated cipher.
#[derive(Clone, Copy)]
pub struct SimKeys {
    /// What is written is encrypted.
    pub encrypts: bool,
    /// What is read can be decrypted.
    pub decrypts: bool,
}

impl SimKeys {
    /// Reads everything.
    pub const READER: Self = Self {
        encrypts: false,
        decrypts: true,
    };
}

impl Keys for SimKeys {
    fn encrypt(&self, payload: &[u8]) -> Option<Vec<u8>> {
        let bytes = payload.iter().map(|byte| byte ^ 0xa5);
        self.encrypts
            .then(|| ENCRYPTED.iter().copied().chain(bytes).collect())
    }

    fn decrypt(&self, encrypted: &[u8]) -> Result<Vec<u8>, KeyError> {
        if !self.decrypts {
            return Err(KeyError::NoIdentity);
        }
        let bytes = encrypted.strip_prefix(ENCRYPTED);
        let bytes = bytes.ok_or(KeyError::Damaged("it has no begin".into()))?;
        Ok(bytes.iter().map(|byte| byte ^ 0xa5).collect())
    }
}

//! A folder or a bucket.

use crate::address::Address;
use crate::folder::{Folder, User};
use crate::keys::AgeKeys;
use crate::own_mounts::OwnMounts;
use crate::service::Service;
use crate::variables::Variables;
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinError;
use tonearm_archive::{ArchiveError, Bucket, BucketError, Keys};
use tonearm_rt::Boxed;

/// For how long an operation of a folder may not go forward.
const STALL: Duration = Duration::from_secs(30);

/// A folder (`file:///...`) or a bucket (`s3://bucket/prefix`). Cheap to clone.
#[derive(Clone)]
pub struct RealBucket {
    url: String,
    place: Place,
    runtime: Arc<Threads>,
    keys: Arc<AgeKeys>,
}

#[derive(Clone)]
enum Place {
    Folder(Arc<Folder>, Arc<Hung>),
    Service(Arc<Service>),
}

/// How many operations of a folder have been given up and have not ended. The kernel does not let go of a thread that waits for
/// a disk which does not answer.
#[derive(Default)]
struct Hung(AtomicU64);

/// The runtime in which requests run. Its end waits for none of them: a disk may never answer.
struct Threads(Option<Runtime>);

impl Threads {
    fn get(&self) -> &Runtime {
        self.0.as_ref().expect("it is there until the end")
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// When a writer makes a folder that is not there. Its parents it never makes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Making {
    /// At the first start of the archive: this file notes the addresses at which the store has been archived. A folder that has
    /// gone is on a disk that is not mounted.
    Noted(PathBuf),
    /// Never: people make it.
    #[default]
    Never,
}

/// Who writes an archive.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Writer {
    /// When it makes a folder.
    pub making: Making,
    /// Mount points of the store itself. A folder there is refused.
    pub own_mounts: OwnMounts,
}

impl Writer {
    /// The writer of archives of the store at `path`. Its notes are next to the store. A store that is a device has no folder for
    /// notes that outlive the next start of the machine.
    pub fn of_store(path: &Path) -> Self {
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let mut note = path.clone().into_os_string();
        note.push(".archives");
        let making = match path.is_file() {
            true => Making::Noted(note.into()),
            false => Making::Never,
        };
        Self {
            making,
            own_mounts: OwnMounts::default(),
        }
    }
}

fn refused(url: &str, why: impl Into<String>) -> ArchiveError {
    ArchiveError::Bucket {
        url: url.to_string(),
        error: BucketError::Refused(why.into()),
    }
}

impl RealBucket {
    /// Opens the place that `url` names, for a reader. Nothing is sent yet. An
    /// S3 bucket takes keys, region and endpoint from the variables that other programs use (`AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_PROFILE`, `AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_ALLOW_HTTP`).
    ///
    /// # Errors
    /// When the address is of another kind, or incomplete, or there is no such folder.
    pub fn open(url: &str) -> Result<Self, ArchiveError> {
        Self::open_for(url, None)
    }

    /// The same for a writer, [`Writer::of_store`]. The folder is neither made nor looked at yet.
    ///
    /// # Errors
    /// When the address is of another kind, or incomplete.
    pub fn open_to_write(url: &str, writer: Writer) -> Result<Self, ArchiveError> {
        Self::open_for(url, Some(writer))
    }

    fn open_for(url: &str, writer: Option<Writer>) -> Result<Self, ArchiveError> {
        let place = match Address::parse(url).map_err(|why| refused(url, why))? {
            Address::Folder(path) => {
                if writer.is_none() && !path.is_dir() {
                    return Err(ArchiveError::Empty {
                        url: url.to_string(),
                    });
                }
                let folder = match writer {
                    None => Folder::new(url, path, User::Reader),
                    Some(Writer { making, own_mounts }) => {
                        Folder::new(url, path, User::Writer(making)).outside(own_mounts)
                    }
                };
                Place::Folder(Arc::new(folder), Arc::default())
            }
            Address::Service { bucket, prefix } => {
                let service = Service::new(bucket, prefix, &Variables::of_process());
                Place::Service(Arc::new(service.map_err(|why| refused(url, why))?))
            }
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("archive-io")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| refused(url, error.to_string()))?;
        Ok(Self {
            url: url.to_string(),
            place,
            runtime: Arc::new(Threads(Some(runtime))),
            keys: Arc::default(),
        })
    }

    /// Encrypts what is written for each of these recipients, public keys of age (`age1...`). With none, nothing is encrypted.
    ///
    /// # Errors
    /// When one is no recipient.
    pub fn with_recipients(mut self, recipients: &[String]) -> Result<Self, ArchiveError> {
        let mut keys = AgeKeys::default();
        for recipient in recipients {
            let added = keys.add_recipient(recipient);
            added.map_err(|why| refused(&self.url, why))?;
        }
        self.keys = Arc::new(keys);
        Ok(self)
    }

    /// Decrypts what is read with the identities in these files.
    ///
    /// # Errors
    /// When a file has none.
    pub fn with_identities(mut self, files: &[impl AsRef<Path>]) -> Result<Self, ArchiveError> {
        let mut keys = AgeKeys::default();
        for file in files {
            let added = keys.add_identities(file.as_ref());
            added.map_err(|why| refused(&self.url, why))?;
        }
        self.keys = Arc::new(keys);
        Ok(self)
    }

    /// The runtime in which its requests run.
    pub fn runtime(&self) -> &Runtime {
        self.runtime.get()
    }

    /// Goes on with the keys, region and endpoint that `variables` name. A folder needs none.
    ///
    /// # Errors
    /// When they cannot be used; then nothing has changed.
    pub fn reload(&self, variables: &Variables) -> Result<(), ArchiveError> {
        match &self.place {
            Place::Folder(..) => Ok(()),
            Place::Service(service) => {
                let reloaded = service.reload(variables);
                reloaded.map_err(|why| refused(&self.url, why))
            }
        }
    }

    /// Runs `work` in the runtime.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, BucketError>> + Send + 'static,
    ) -> Result<T, BucketError> {
        self.runtime().spawn(work).await.unwrap_or_else(panicked)
    }
}

fn panicked<T>(error: JoinError) -> Result<T, BucketError> {
    Err(BucketError::Transient(error.to_string()))
}

/// Runs `work` with `folder` on a thread of its own. Gives it up when it has not gone forward for `stall`, and begins nothing new
/// until it has ended. It calls its argument as it goes forward.
async fn on_disk<T: Send + 'static>(
    folder: Arc<Folder>,
    hung: Arc<Hung>,
    stall: Duration,
    work: impl FnOnce(&Folder, &(dyn Fn() + Sync)) -> Result<T, BucketError> + Send + 'static,
) -> Result<T, BucketError> {
    let away = || {
        let text = "the folder does not answer: is its disk or server away?";
        Err(BucketError::Transient(text.into()))
    };
    if hung.0.load(Ordering::SeqCst) > 0 {
        return away();
    }
    let beats = Arc::new(AtomicU64::new(0));
    // True once it was given up or has ended, whichever was first.
    let is_over = Arc::new(Mutex::new(false));
    let over = |is_over: &Mutex<bool>| {
        let mut is_over = is_over.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *is_over, true)
    };
    let (own_beats, own_over, own_hung) = (beats.clone(), is_over.clone(), hung.clone());
    let mut working = tokio::task::spawn_blocking(move || {
        let done = work(&folder, &|| {
            own_beats.fetch_add(1, Ordering::Relaxed);
        });
        if over(&own_over) {
            own_hung.0.fetch_sub(1, Ordering::SeqCst);
        }
        done
    });
    loop {
        let before = beats.load(Ordering::Relaxed);
        match tokio::time::timeout(stall, &mut working).await {
            Ok(done) => return done.unwrap_or_else(panicked),
            Err(_) if beats.load(Ordering::Relaxed) > before => {}
            Err(_) => {
                hung.0.fetch_add(1, Ordering::SeqCst);
                if over(&is_over) {
                    hung.0.fetch_sub(1, Ordering::SeqCst);
                    return working.await.unwrap_or_else(panicked);
                }
                return away();
            }
        }
    }
}

impl Bucket for RealBucket {
    fn put_new<'a>(&'a self, name: &'a str, object: Bytes) -> Boxed<'a, Result<bool, BucketError>> {
        let name = name.to_string();
        match self.place.clone() {
            Place::Folder(folder, hung) => {
                Box::pin(self.run(on_disk(folder, hung, STALL, move |folder, beat| {
                    folder.put_new(&name, &object, beat)
                })))
            }
            Place::Service(service) => {
                Box::pin(self.run(async move { service.put_new(&name, object).await }))
            }
        }
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        most: u64,
    ) -> Boxed<'a, Result<Option<Vec<u8>>, BucketError>> {
        let name = name.to_string();
        match self.place.clone() {
            Place::Folder(folder, hung) => {
                Box::pin(self.run(on_disk(folder, hung, STALL, move |folder, beat| {
                    folder.get(&name, most, beat)
                })))
            }
            Place::Service(service) => {
                Box::pin(self.run(async move { service.get(&name, most).await }))
            }
        }
    }

    fn heads<'a>(
        &'a self,
        names: &'a [String],
        bytes: usize,
    ) -> Boxed<'a, Result<Vec<Option<Vec<u8>>>, BucketError>> {
        let names = names.to_vec();
        match self.place.clone() {
            Place::Folder(folder, hung) => {
                Box::pin(self.run(on_disk(folder, hung, STALL, move |folder, beat| {
                    folder.heads(&names, bytes, beat)
                })))
            }
            Place::Service(service) => {
                Box::pin(self.run(async move { service.heads(&names, bytes).await }))
            }
        }
    }

    fn list<'a>(&'a self, folder: &'a str) -> Boxed<'a, Result<Vec<String>, BucketError>> {
        let name = folder.to_string();
        let place = self.place.clone();
        Box::pin(async move {
            let mut names = match place {
                Place::Folder(folder, hung) => {
                    let list =
                        move |folder: &Folder, beat: &(dyn Fn() + Sync)| folder.list(&name, beat);
                    self.run(on_disk(folder, hung, STALL, list)).await?
                }
                Place::Service(service) => {
                    self.run(async move { service.list(&name).await }).await?
                }
            };
            names.sort_unstable();
            Ok(names)
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<(), BucketError>> {
        let name = name.to_string();
        match self.place.clone() {
            Place::Folder(folder, hung) => {
                Box::pin(self.run(on_disk(folder, hung, STALL, move |folder, _| {
                    folder.delete(&name)
                })))
            }
            Place::Service(service) => {
                Box::pin(self.run(async move { service.delete(&name).await }))
            }
        }
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    fn keys(&self) -> &dyn Keys {
        &*self.keys
    }
}

#[cfg(test)]
#[path = "bucket_test.rs"]
mod bucket_test;

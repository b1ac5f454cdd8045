//! A folder or a bucket.

use crate::keys::AgeKeys;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::AmazonS3Builder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    ClientOptions, Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    PutPayload, RetryConfig,
};
use rustix::fs::Advice;
use std::fs::Permissions;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tonearm_archive::{ArchiveError, Bucket, BucketError, Keys};
use tonearm_rt::Boxed;
use url::Url;

/// Headers that are read at the same time.
const HEADS: usize = 32;
/// Permissions of a folder that is made, and of its objects: they have the content of a store that only its owner reads.
const FOLDER_MODE: u32 = 0o700;
const OBJECT_MODE: u32 = 0o600;
/// How long a request may take, the repetitions of the client included.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A folder (`file:///...`) or a bucket (`s3://bucket/prefix`). Cheap to clone.
#[derive(Clone)]
pub struct RealBucket {
    url: String,
    store: Arc<dyn ObjectStore>,
    /// The folder, if it is one.
    folder: Option<PathBuf>,
    prefix: Path,
    runtime: Arc<Runtime>,
    keys: Arc<AgeKeys>,
}

fn refused(url: &str, why: impl Into<String>) -> ArchiveError {
    ArchiveError::Bucket {
        url: url.to_string(),
        error: BucketError::Refused(why.into()),
    }
}

impl RealBucket {
    /// Opens the place that `url` names. Nothing is sent yet. With `create`, a folder that does not exist is made. An S3
    /// bucket takes keys, region and endpoint from the variables that other programs use (`AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_ALLOW_HTTP`).
    ///
    /// # Errors
    /// When the address is of another kind, or incomplete.
    pub fn open(url: &str, create: bool) -> Result<Self, ArchiveError> {
        let parsed = Url::parse(url).map_err(|error| {
            refused(url, format!("this is no address of an archive ({error}); write file:///folder or s3://bucket/prefix"))
        })?;
        let mut folder = None;
        let (store, prefix): (Arc<dyn ObjectStore>, Path) = match parsed.scheme() {
            "file" => {
                let path = folder.insert(folder_of(url, &parsed, create)?);
                let store = LocalFileSystem::new_with_prefix(path);
                let store = store.map_err(|error| refused(url, error.to_string()))?;
                (Arc::new(store.with_fsync(true)), Path::default())
            }
            "s3" => {
                // The client takes the provider that the process has installed. Another part of it may have done so.
                let _ = rustls::crypto::ring::default_provider().install_default();
                let retry = RetryConfig {
                    max_retries: 3,
                    retry_timeout: TIMEOUT,
                    ..RetryConfig::default()
                };
                let client = ClientOptions::default().with_timeout(TIMEOUT);
                let builder = AmazonS3Builder::from_env()
                    .with_url(url)
                    .with_client_options(client_options(client))
                    .with_retry(retry);
                let store = builder
                    .build()
                    .map_err(|error| refused(url, error.to_string()))?;
                let prefix = Path::parse(parsed.path().trim_matches('/'));
                let prefix = prefix.map_err(|error| refused(url, error.to_string()))?;
                (Arc::new(store), prefix)
            }
            other => {
                return Err(refused(
                    url,
                    format!("archives are at file:// or s3://, not at {other}://"),
                ));
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
            store,
            folder,
            prefix,
            runtime: Arc::new(runtime),
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
    pub fn with_identities(mut self, files: &[impl AsRef<FilePath>]) -> Result<Self, ArchiveError> {
        let mut keys = AgeKeys::default();
        for file in files {
            let added = keys.add_identities(file.as_ref());
            added.map_err(|why| refused(&self.url, why))?;
        }
        self.keys = Arc::new(keys);
        Ok(self)
    }

    /// The runtime in which its requests run.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    fn path(&self, name: &str) -> Path {
        let parts = name.split('/');
        parts.fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Runs `work` in the runtime.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let done = self.runtime.spawn(work).await;
        done.unwrap_or_else(|error| {
            Err(Error::Generic {
                store: "archive",
                source: Box::new(error),
            })
        })
    }
}

/// Plain HTTP must be allowed by hand, for servers on the same machine.
fn client_options(options: ClientOptions) -> ClientOptions {
    let allowed =
        std::env::var("AWS_ALLOW_HTTP").is_ok_and(|value| value == "true" || value == "1");
    options.with_allow_http(allowed)
}

fn folder_of(url: &str, parsed: &Url, create: bool) -> Result<PathBuf, ArchiveError> {
    let path: PathBuf = parsed
        .to_file_path()
        .map_err(|()| refused(url, "write an absolute path: file:///folder"))?;
    if create {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(&path)
            .map_err(|error| refused(url, format!("the folder cannot be made: {error}")))?;
    } else if !path.is_dir() {
        return Err(ArchiveError::Empty {
            url: url.to_string(),
        });
    }
    Ok(path)
}

/// Leaves a new object to its owner alone, as the store is, and takes it out of the page cache. Nobody reads it soon, so the
/// host can use the memory for something else. The kernel also writes the next object faster into pages that it has just used.
fn settle(path: &FilePath) {
    // The object is there in any case. Some file systems have no permissions.
    if let Ok(file) = std::fs::File::open(path) {
        let _ = file.set_permissions(Permissions::from_mode(OBJECT_MODE));
        let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
    }
}

fn why(error: Error) -> BucketError {
    let text = match &error {
        // The text of the cause, without the name of the implementation.
        Error::Generic { source, .. } => chain(source.as_ref()),
        other => chain(other),
    };
    let (short, code) = (shortened(&text), code_of(&text));
    match code.as_deref() {
        Some("NoSuchBucket") => {
            return BucketError::Refused(format!("the bucket does not exist ({short})"));
        }
        _ if text.contains("403 Forbidden") || text.contains("401 Unauthorized") => {
            return BucketError::Refused(format!(
                "access is denied: check the credentials ({short})"
            ));
        }
        _ => {}
    }
    let text = short;
    match error {
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            BucketError::Refused(format!("access is denied: check the credentials ({text})"))
        }
        Error::NotFound { .. } => {
            BucketError::Refused(format!("the bucket or folder does not exist ({text})"))
        }
        Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::InvalidPath { .. }
        | Error::UnknownConfigurationKey { .. } => BucketError::Refused(text),
        _ => BucketError::Transient(text),
    }
}

fn between<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    let (inner, _) = rest.split_once(&format!("</{tag}>"))?;
    Some(inner)
}

/// The code of an error of S3.
fn code_of(text: &str) -> Option<String> {
    between(text, "Code").map(str::to_string)
}

/// What people need of an error: of an answer in XML, code and message; of a failed connection, its end.
fn shortened(text: &str) -> String {
    if let (Some(code), Some(message)) = (between(text, "Code"), between(text, "Message")) {
        return format!("{code}: {message}");
    }
    match text.split_once("HTTP error: ") {
        Some((_, end)) => format!("it does not answer: {end}"),
        None => text.to_string(),
    }
}

/// An error and its causes, each once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

impl Bucket for RealBucket {
    fn put_new<'a>(&'a self, name: &'a str, object: Bytes) -> Boxed<'a, Result<bool, BucketError>> {
        let (store, path) = (self.store.clone(), self.path(name));
        let file = self.folder.as_ref().map(|folder| folder.join(name));
        Box::pin(async move {
            let put = async move {
                let options = PutOptions {
                    mode: PutMode::Create,
                    ..PutOptions::default()
                };
                let payload = PutPayload::from_bytes(object);
                let put = store.put_opts(&path, payload, options).await?;
                if let Some(file) = file {
                    settle(&file);
                }
                Ok(put)
            };
            match self.run(put).await {
                Ok(_) => Ok(true),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
                Err(error) => Err(why(error)),
            }
        })
    }

    fn get<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<Option<Vec<u8>>, BucketError>> {
        let (store, path) = (self.store.clone(), self.path(name));
        Box::pin(async move {
            let get = async move { store.get(&path).await?.bytes().await };
            match self.run(get).await {
                Ok(bytes) => Ok(Some(bytes.into())),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(why(error)),
            }
        })
    }

    fn heads<'a>(
        &'a self,
        names: &'a [String],
        bytes: usize,
    ) -> Boxed<'a, Result<Vec<Option<Vec<u8>>>, BucketError>> {
        let paths: Vec<Path> = names.iter().map(|name| self.path(name)).collect();
        let store = self.store.clone();
        Box::pin(async move {
            let get = async move {
                let heads = futures_util::stream::iter(paths).map(|path| {
                    let store = store.clone();
                    async move {
                        let options = GetOptions {
                            range: Some(GetRange::Bounded(0..bytes as u64)),
                            ..GetOptions::default()
                        };
                        let head = match store.get_opts(&path, options).await {
                            Ok(found) => Some(found.bytes().await?.to_vec()),
                            Err(Error::NotFound { .. }) => None,
                            Err(error) => return Err(error),
                        };
                        Ok(head.filter(|head| head.len() == bytes))
                    }
                });
                heads.buffered(HEADS).try_collect::<Vec<_>>().await
            };
            self.run(get).await.map_err(why)
        })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Boxed<'a, Result<Vec<String>, BucketError>> {
        let (store, prefix, path) = (self.store.clone(), self.prefix.clone(), self.path(folder));
        Box::pin(async move {
            let list = async move {
                let found = store.list(Some(&path));
                let found = found.map_ok(|meta| meta.location);
                found.try_collect::<Vec<Path>>().await
            };
            let found = match self.run(list).await {
                Err(Error::NotFound { .. }) => Vec::new(),
                other => other.map_err(why)?,
            };
            let relative = found.iter().filter_map(|path| {
                let parts = path.prefix_match(&prefix)?;
                let parts: Vec<_> = parts.map(|part| part.as_ref().to_string()).collect();
                Some(parts.join("/"))
            });
            let mut names: Vec<String> = relative.collect();
            names.sort_unstable();
            Ok(names)
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<(), BucketError>> {
        let (store, path) = (self.store.clone(), self.path(name));
        Box::pin(async move {
            let delete = async move { store.delete(&path).await };
            match self.run(delete).await {
                Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(why(error)),
            }
        })
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

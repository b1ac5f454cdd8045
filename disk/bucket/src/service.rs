//! An archive in a bucket of a service that speaks S3.

use crate::credentials::Profile;
use crate::line::Line;
use crate::refusal::{KEYS as SET_KEYS, Request, is_conflict, meaning, without_keys};
use crate::variables::Variables;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{
    Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    RetryConfig,
};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tonearm_archive::BucketError;

/// Headers that are read at the same time.
const HEADS: usize = 32;
/// The client's error for an answer with the whole object to a request of a part.
const WHOLE: &str = "non-partial response";
/// For how long nothing of a request or answer may go forward, and how long it is repeated within one call.
const STALL: Duration = Duration::from_secs(30);

/// Most bytes for which there is memory before there is content.
const ROOM_BYTES: u64 = 32 << 20;

type Result<T> = std::result::Result<T, BucketError>;

/// A bucket.
pub(crate) struct Service {
    bucket: String,
    prefix: String,
    client: RwLock<Client>,
}

/// What requests are sent with.
#[derive(Clone)]
struct Client {
    store: Arc<AmazonS3>,
    keys: KeysFrom,
}

/// Where the keys of a client come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeysFrom {
    /// Variables or a profile name them.
    Named,
    /// Nothing names them: machines of Amazon ask for them on a network of their own.
    Machine,
    /// Requests are not signed.
    Nowhere,
}

impl Service {
    /// The part of `bucket` whose names begin with `prefix`, with the keys, region and endpoint that `variables` name.
    pub(crate) fn new(
        bucket: String,
        prefix: String,
        variables: &Variables,
    ) -> std::result::Result<Self, String> {
        let client = RwLock::new(client(&bucket, variables)?);
        Ok(Self {
            bucket,
            prefix,
            client,
        })
    }

    /// Goes on with what these variables name.
    pub(crate) fn reload(&self, variables: &Variables) -> std::result::Result<(), String> {
        let client = client(&self.bucket, variables)?;
        let mut known = self.client.write().unwrap_or_else(PoisonError::into_inner);
        // `sudo` and units of systemd drop variables. To go on without keys would end the archive.
        if client.keys == KeysFrom::Machine && known.keys != KeysFrom::Machine {
            return Err(format!(
                "there are no keys to go on with, so those before stay in use: {SET_KEYS}, in the environment of this command \
                 (`sudo` leaves them out; `sudo -E` does not)"
            ));
        }
        *known = client;
        Ok(())
    }

    /// The client, once there are keys: what the place says from which they come is nothing about an object.
    async fn client(&self) -> Result<Arc<AmazonS3>> {
        let client = self
            .client
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if client.keys != KeysFrom::Nowhere {
            let keys = client.store.credentials().get_credential().await;
            keys.map_err(|error| without_keys(&error))?;
        }
        Ok(client.store)
    }

    fn path(&self, name: &str) -> Result<Path> {
        let path = match self.prefix.as_str() {
            "" => name.to_string(),
            prefix => format!("{prefix}/{name}"),
        };
        // To the letter. `Path::from` would write some characters in another way.
        Path::parse(&path).map_err(|error| BucketError::Refused(error.to_string()))
    }

    /// Puts an object where there is none; false when there is one.
    pub(crate) async fn put_new(&self, name: &str, object: Bytes) -> Result<bool> {
        let options = PutOptions {
            mode: PutMode::Create,
            ..PutOptions::default()
        };
        let payload = PutPayload::from_bytes(object);
        match self
            .client()
            .await?
            .put_opts(&self.path(name)?, payload, options)
            .await
        {
            Ok(_) => Ok(true),
            // Some services answer so whenever there is an object. To try again would never end then.
            Err(error) if is_conflict(&error) && self.get(name, 0).await?.is_some() => Ok(false),
            Err(error) => meaning(Request::Put, &error).map(|()| false),
        }
    }

    /// The object, of a longer one the first `most` + 1 bytes; none when there is none.
    pub(crate) async fn get(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        self.read(&self.path(name)?, GetOptions::default(), most)
            .await
    }

    /// Reads no more than `most` + 1 bytes, however long the answer is: anybody who can write to the place chooses the length.
    async fn read(&self, path: &Path, options: GetOptions, most: u64) -> Result<Option<Vec<u8>>> {
        let object = async {
            let found = self.client().await?.get_opts(path, options).await;
            let found = found.map_err(Failed::Answer)?;
            let most = most.saturating_add(1);
            let room = found.meta.size.min(most).min(ROOM_BYTES);
            let (mut object, mut parts) = (Vec::with_capacity(room as usize), found.into_stream());
            while let Some(part) = parts.try_next().await.map_err(Failed::Answer)? {
                let left = (most - object.len() as u64).min(part.len() as u64);
                object.extend_from_slice(&part[..left as usize]);
                if object.len() as u64 == most {
                    break;
                }
            }
            Ok(object)
        };
        match object.await {
            Ok(object) => Ok(Some(object)),
            Err(Failed::Before(error)) => Err(error),
            Err(Failed::Answer(error)) => meaning(Request::Object, &error).map(|()| None),
        }
    }

    /// The first `bytes` bytes of each of the objects that are there and so long.
    pub(crate) async fn heads(
        &self,
        names: &[String],
        bytes: usize,
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let head = |name: String| async move {
            let options = GetOptions {
                range: Some(GetRange::Bounded(0..bytes as u64)),
                ..GetOptions::default()
            };
            let path = self.path(&name)?;
            let head = match self.read(&path, options, bytes as u64).await {
                // Some services send an empty object as a whole, and some know no parts.
                Err(BucketError::Transient(why)) if why.contains(WHOLE) => {
                    self.read(&path, GetOptions::default(), bytes as u64)
                        .await?
                }
                head => head?,
            };
            Ok(head.and_then(|head| head.get(..bytes).map(<[u8]>::to_vec)))
        };
        let heads = futures_util::stream::iter(names.to_vec()).map(head);
        heads.buffered(HEADS).try_collect().await
    }

    /// The names of the objects below `folder`.
    pub(crate) async fn list(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.path(folder)?;
        let client = self.client().await?;
        let found = client.list(Some(&path)).map_ok(|meta| meta.location);
        let found: std::result::Result<Vec<Path>, Error> = found.try_collect().await;
        let found = match found {
            Ok(found) => found,
            Err(error) => return meaning(Request::List, &error).map(|()| Vec::new()),
        };
        let own = match self.prefix.as_str() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let names = found
            .iter()
            .filter_map(|path| path.as_ref().strip_prefix(&own));
        Ok(names.map(str::to_string).collect())
    }

    /// Deletes an object, if there is one.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        match self.client().await?.delete(&self.path(name)?).await {
            Ok(()) => Ok(()),
            Err(error) => meaning(Request::Object, &error),
        }
    }
}

/// Why an object was not read.
enum Failed {
    /// Nothing was asked for.
    Before(BucketError),
    /// The service has answered something else, or nothing.
    Answer(Error),
}

impl From<BucketError> for Failed {
    fn from(error: BucketError) -> Self {
        Self::Before(error)
    }
}

/// A client of `bucket`. Nothing is sent yet.
fn client(bucket: &str, variables: &Variables) -> std::result::Result<Client, String> {
    // The client takes the provider that the process has installed. Another part of it may have done so.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry = RetryConfig {
        max_retries: 3,
        retry_timeout: STALL,
        ..RetryConfig::default()
    };
    // Plain HTTP must be allowed by hand, for servers on the same machine.
    let allowed = matches!(variables.get("AWS_ALLOW_HTTP"), Some("true" | "1"));
    let mut builder = AmazonS3Builder::new();
    for (name, value) in variables.iter() {
        if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    builder = builder
        .with_allow_http(allowed)
        // One at a time is deleted, and then the answer has a status.
        .with_disable_bulk_delete(true)
        .with_bucket_name(bucket)
        .with_retry(retry)
        .with_http_connector(Line { stall: STALL });
    let has_keys = [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
    ]
    .iter()
    .chain(&[
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ])
    .any(|name| variables.get(name).is_some());
    let skip = variables.get("AWS_SKIP_SIGNATURE").unwrap_or_default();
    let mut keys = match skip.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" | "y" => KeysFrom::Nowhere,
        _ if has_keys => KeysFrom::Named,
        _ => KeysFrom::Machine,
    };
    if let Some(profile) = Profile::of(variables) {
        let lacks = |names: [&str; 2]| names.iter().all(|name| variables.get(name).is_none());
        if lacks(["AWS_REGION", "AWS_DEFAULT_REGION"])
            && let Some(region) = profile.get("region")
        {
            builder = builder.with_region(region);
        }
        if lacks(["AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
            && let Some(endpoint) = profile.get("endpoint_url")
        {
            builder = builder.with_endpoint(endpoint);
        }
        if !has_keys {
            builder = builder.with_credentials(Arc::new(profile));
            if keys == KeysFrom::Machine {
                keys = KeysFrom::Named;
            }
        }
    }
    let store = builder.build().map_err(|error| error.to_string())?;
    Ok(Client {
        store: Arc::new(store),
        keys,
    })
}

#[cfg(test)]
#[path = "service_test.rs"]
mod service_test;

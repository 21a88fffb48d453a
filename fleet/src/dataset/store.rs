// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Store`]: the folder or object store with a dataset's files. Names are relative to its root.

use crate::errors::ErrorContext as _;
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::TryStreamExt as _;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Name;
use object_store::{
    BackoffConfig, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, RetryConfig,
};
use parking_lot::Mutex;
use sediment_core::{Error, ErrorCode, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Files of a dataset.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    inner: Arc<dyn ObjectStore>,
    /// Prefix by which engines identify the store: `file:///` or `s3://BUCKET/`.
    base: String,
    root: Name,
    folder: Option<PathBuf>,
    /// Files of the folder that were written and may not be durable yet.
    unsettled: Arc<Mutex<Vec<String>>>,
}

impl Store {
    /// Opens a folder, which is made if it does not exist, or `s3://BUCKET/PREFIX`. The access keys, region and endpoint of S3 come from the same environment
    /// variables as for the AWS command line.
    pub(crate) fn open(place: &str) -> Result<Self> {
        match place.strip_prefix("s3://") {
            Some(rest) => Self::open_bucket(rest).map_err(|error| error.with_input(place)),
            None => Self::open_folder(Path::new(place)).map_err(|error| error.with_input(place)),
        }
    }

    fn open_folder(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).io()?;
        let folder = folder.canonicalize().io()?;
        let root = Name::from_absolute_path(&folder).map_err(|error| no_name(&error))?;
        let inner = Arc::new(LocalFileSystem::new());
        let base = "file:///".to_owned();
        Ok(Self { inner, base, root, folder: Some(folder), unsettled: Arc::default() })
    }

    fn open_bucket(rest: &str) -> Result<Self> {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        // Many quick retries: the program works even if every second call to the store fails.
        let backoff = BackoffConfig {
            init_backoff: Duration::from_millis(20),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        };
        let retry = RetryConfig { backoff, max_retries: 12, retry_timeout: Duration::from_secs(120) };
        let inner = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_retry(retry)
            .build()
            .map_err(|error| failed(&error))?;
        let root = Name::parse(prefix.trim_matches('/')).map_err(|error| no_name(&error))?;
        let base = format!("s3://{bucket}/");
        Ok(Self { inner: Arc::new(inner), base, root, folder: None, unsettled: Arc::default() })
    }

    /// Registers the store with an engine.
    pub(crate) fn register(&self, environment: &RuntimeEnv) -> Result<()> {
        environment.register_object_store(&self.base_url()?, Arc::clone(&self.inner));
        Ok(())
    }

    fn base_url(&self) -> Result<url::Url> {
        url::Url::parse(&self.base).map_err(|error| Error::new(ErrorCode::Usage, error.to_string()))
    }

    /// URL of a file, for engines.
    pub(crate) fn url(&self, name: &str) -> Result<String> {
        let full = self.full(name)?;
        let mut url = self.base_url()?;
        if let Ok(mut path) = url.path_segments_mut() {
            // A `%` in a name is an ordinary character.
            path.pop_if_empty().extend(full.as_ref().split('/'));
        }
        Ok(url.into())
    }

    /// Path or URL of a file, for other programs.
    pub(crate) fn for_programs(&self, name: &str) -> String {
        match &self.folder {
            Some(folder) => folder.join(name).display().to_string(),
            None => format!("{}{}", self.base, self.full(name).unwrap_or_default()),
        }
    }

    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The underlying store; its names are [full](Self::full).
    pub(super) fn inner(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.inner)
    }

    /// Waits until a file that another component wrote is durable, if the file exists.
    pub(super) fn settle_file(&self, name: &str) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let path = folder.join(name);
        if path.exists() {
            sync(&path)?;
            path.parent().map_or(Ok(()), sync)?;
        }
        Ok(())
    }

    pub(super) fn full(&self, name: &str) -> Result<Name> {
        let text =
            if self.root.as_ref().is_empty() { name.to_owned() } else { format!("{}/{name}", self.root) };
        Name::parse(text).map_err(|error| no_name(&error).with_input(name))
    }

    /// Writes a new file, completely or not at all. It is durable when [`Self::settle`] returns.
    pub(crate) async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        let full = self.full(name)?;
        let payload = PutPayload::from(bytes::Bytes::from(bytes));
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.inner.put_opts(&full, payload.clone(), options).await {
            Ok(_) => {}
            // An attempt whose answer was lost has written the file.
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                let read = async { self.inner.get(&full).await?.bytes().await };
                let found = read.await.map_err(|error| failed(&error).with_input(name))?;
                if payload.iter().flatten().ne(found.iter()) {
                    return Err(Error::new(ErrorCode::IncompatibleInputs, "another program wrote this file")
                        .with_input(name));
                }
            }
            Err(error) => return Err(failed(&error).with_input(name)),
        }
        if self.folder.is_some() {
            self.unsettled.lock().push(name.to_owned());
        }
        Ok(())
    }

    /// Waits until all created files and their parent folders are durable. Waits for each folder once.
    pub(crate) fn settle(&self) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let mut unsettled = self.unsettled.lock();
        let mut folders = BTreeSet::new();
        for name in unsettled.iter() {
            let path = folder.join(name);
            sync(&path)?;
            let above = path.ancestors().skip(1).take_while(|above| above.starts_with(folder));
            folders.extend(above.map(Path::to_path_buf));
        }
        for above in &folders {
            sync(above)?;
        }
        unsettled.clear();
        Ok(())
    }

    /// Removes a file. A missing file is not an error.
    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        self.unsettled.lock().retain(|created| created != name);
        match self.inner.delete(&self.full(name)?).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(failed(&error).with_input(name)),
        }
    }

    /// True if there are files below a folder of the dataset.
    pub(crate) async fn has_files(&self, folder: &str) -> Result<bool> {
        let found = self.inner.list(Some(&self.full(folder)?)).try_next().await;
        Ok(found.map_err(|error| failed(&error).with_input(folder))?.is_some())
    }
}

/// Waits until a file or folder is durable.
fn sync(path: &Path) -> Result<()> {
    std::fs::File::open(path).and_then(|file| file.sync_all()).at(path)
}

fn failed(error: &object_store::Error) -> Error {
    let code = match error {
        object_store::Error::NotFound { .. } => ErrorCode::NotFound,
        _ => ErrorCode::Io,
    };
    Error::new(code, format!("the store failed: {error}"))
}

fn no_name(error: &object_store::path::Error) -> Error {
    Error::new(ErrorCode::Usage, format!("not a valid file name in a store: {error}"))
}

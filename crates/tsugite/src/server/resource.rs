//! The builder of a resource or a resource template.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tsugite_core::protocol::Annotations;
use tsugite_core::protocol::caching::CacheScope;
use tsugite_core::protocol::content::ResourceContents;
use tsugite_core::protocol::resources::{self, ReadResult};
use tsugite_core::uri_template::UriTemplate;

use super::completer::{Completer, Completers, IntoCompleter};
use super::files::{self, Directory, FileBody, FileError};
use super::handler::{Blocking, CallParts, Handler, HandlerFuture, IntoHandler};
use super::handler_error::{HandlerError, InvocationError};
use super::metadata::metadata_setters;
use super::state::StateType;

/// A resource or a resource template: its definition and its handler.
///
/// ```
/// use tsugite::prelude::*;
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Note {
///     owner: String,
///     id: u32,
/// }
///
/// let motto = Resource::new("notes://motto").handler(|| async { "Measure twice." });
/// let notes = Resource::template("notes://{owner}/{id}")
///     .handler(|Args(note): Args<Note>| async move { (note.id == 1).then(|| format!("{}'s first", note.owner)) });
/// let docs = Resource::directory("docs:///", ".");
/// # let _ = (motto, notes, docs);
/// ```
#[derive(Clone)]
pub struct Resource {
    pub(crate) definition: resources::Resource,
    pub(crate) location: ResourceLocation,
    pub(crate) handler: Option<Arc<dyn Handler<ReadResult>>>,
    pub(crate) completers: Completers,
    pub(crate) tags: Vec<String>,
    pub(crate) scopes: Vec<String>,
    pub(crate) cache: Option<(Duration, CacheScope)>,
    pub(crate) error: Option<String>,
}

/// The location of a resource.
#[derive(Clone)]
pub(crate) enum ResourceLocation {
    /// A fixed URI.
    Uri,
    /// A URI template.
    Template(UriTemplate),
    /// A directory.
    Directory(UriTemplate, Arc<Directory>),
}

impl Resource {
    /// Creates a resource with a fixed URI.
    pub fn new(uri: impl Into<String>) -> Self {
        let uri = uri.into();
        let name = uri.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&uri).to_owned();
        Self {
            definition: resources::Resource::new(uri, name),
            location: ResourceLocation::Uri,
            handler: None,
            completers: Completers::default(),
            tags: Vec::new(),
            scopes: Vec::new(),
            cache: None,
            error: None,
        }
    }

    /// Creates a resource template (RFC 6570); its variables are the arguments. An ambiguous template is reported when the
    /// server is served.
    #[doc(alias("ResourceTemplate", "uriTemplate"))]
    pub fn template(template: impl Into<String>) -> Self {
        let template = template.into();
        let mut resource = Self::new(template.clone());
        match UriTemplate::parse(&template) {
            Ok(parsed) => resource.location = ResourceLocation::Template(parsed),
            Err(error) => resource.error = Some(format!("the template {template:?}: {error}")),
        }
        resource
    }

    /// Creates a resource, or a template if `uri` contains braces, as `#[resource("…")]` does.
    pub fn from_uri_or_template(uri_or_template: impl Into<String>) -> Self {
        let text = uri_or_template.into();
        if text.contains('{') { Self::template(text) } else { Self::new(text) }
    }

    /// Creates a resource with constant text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let size = text.len();
        Self::new(uri).size(size as u64).with_fixed_contents(move || ResourceContents::text("", text.clone()))
    }

    /// Creates a resource with constant bytes.
    pub fn bytes(uri: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let size = bytes.len();
        Self::new(uri).size(size as u64).with_fixed_contents(move || ResourceContents::bytes("", &bytes))
    }

    /// Creates a resource from a file, which is read on every request. Maximum size: 16 MiB.
    pub fn file(uri: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let path: PathBuf = path.into();
        let mut resource = Self::new(uri);
        resource.definition.mime_type = files::mime_type(&path).map(str::to_owned);
        resource.with_file_reader(move |_| {
            let path = path.clone();
            Ok(Box::new(move || files::read_file(&path, MAX_FILE_BYTES)))
        })
    }

    /// Serves the files below a directory: the URI of a file is `uri` followed by its relative path. Files are listed as they
    /// are found; hidden files and links that leave the directory are skipped. Maximum size of a file: 16 MiB.
    pub fn directory(uri: impl Into<String>, path: impl AsRef<Path>) -> Self {
        let uri = uri.into();
        let slash = if uri.ends_with('/') { "" } else { "/" };
        let mut resource = Self::template(format!("{uri}{slash}{{+path}}"));
        let folder = match (Directory::new(path.as_ref()), resource.location.clone()) {
            (Ok(folder), ResourceLocation::Template(template)) => {
                let folder = Arc::new(folder);
                resource.location = ResourceLocation::Directory(template, folder.clone());
                folder
            }
            (Err(error), _) => {
                resource.error = Some(format!("the directory at {uri:?}: {}", error.kind()));
                return resource;
            }
            _ => return resource,
        };
        resource.with_file_reader(move |path| {
            let (folder, path) = (folder.clone(), path.ok_or(InvocationError::NotFound)?.to_owned());
            Ok(Box::new(move || folder.read(&path, MAX_FILE_BYTES)))
        })
    }

    /// Sets the handler that reads the resource. Template variables fill the handler's [`Args`](super::Args).
    #[must_use]
    pub fn handler<P>(mut self, handler: impl IntoHandler<P, ReadResult>) -> Self {
        self.handler = Some(handler.into_handler());
        self
    }

    /// Sets a blocking handler. It runs on a thread for blocking work, not on the threads that serve requests.
    #[must_use]
    pub fn blocking_handler<F, P>(self, handler: F) -> Self
    where
        Blocking<F>: IntoHandler<P, ReadResult>,
    {
        self.handler(Blocking(handler))
    }

    /// Called by the macro: sets the handler of a function.
    #[doc(hidden)]
    #[must_use]
    pub fn function(mut self, handler: Arc<dyn Handler<ReadResult>>) -> Self {
        self.handler = Some(handler);
        self
    }

    /// Completes a template variable from fixed values or a function.
    #[must_use]
    pub fn complete<P>(mut self, variable: impl Into<String>, values: impl IntoCompleter<P>) -> Self {
        self.completers.insert(variable.into(), values.into_completer());
        self
    }

    /// Sets the programmatic name. Default: the last segment of the URI.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.definition.name = name.into();
        self
    }

    /// Sets the MIME type. Contents without a type of their own get it too.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.definition.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the size in bytes. A template has none.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.definition.size = Some(bytes);
        self
    }

    /// Sets the audience and the priority.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.definition.annotations = Some(annotations);
        self
    }

    /// Sets how long clients may cache the contents, and for whom (2026-07-28).
    #[must_use]
    pub fn cache(mut self, time: Duration, scope: CacheScope) -> Self {
        self.cache = Some((time, scope));
        self
    }

    pub(crate) fn completer(&self, variable: &str) -> Option<&Completer> {
        self.completers.get(variable)
    }

    fn with_fixed_contents(
        mut self,
        contents: impl Fn() -> ResourceContents + Send + Sync + 'static,
    ) -> Self {
        self.handler = Some(Arc::new(StaticContents(contents)));
        self
    }

    fn with_file_reader<F>(mut self, read: F) -> Self
    where
        F: Fn(Option<&str>) -> Result<ReadFileFn, InvocationError> + Send + Sync + 'static,
    {
        self.handler = Some(Arc::new(FileHandler(read)));
        self
    }
}

impl Resource {
    /// The types of state that its handler and its completers need.
    pub(super) fn required_states(&self) -> Vec<StateType> {
        let mut states = self.handler.as_ref().map_or_else(Vec::new, |handler| handler.required_states());
        states.extend(
            self.completers.values().flat_map(|completer| completer.required_states().iter().copied()),
        );
        states
    }
}

metadata_setters!(Resource, "What it is.");

struct StaticContents<F>(F);

impl<F: Fn() -> ResourceContents + Send + Sync> Handler<ReadResult> for StaticContents<F> {
    fn call(&self, _parts: &CallParts<'_>) -> HandlerFuture<ReadResult> {
        Box::pin(std::future::ready(Ok(ReadResult::new([(self.0)()]))))
    }
}

type ReadFileFn = Box<dyn FnOnce() -> Result<FileBody, FileError> + Send>;

struct FileHandler<F>(F);

impl<F: Fn(Option<&str>) -> Result<ReadFileFn, InvocationError> + Send + Sync> Handler<ReadResult>
    for FileHandler<F>
{
    fn call(&self, parts: &CallParts<'_>) -> HandlerFuture<ReadResult> {
        let (read, pool) = ((self.0)(parts.arguments.text("path")), parts.blocking());
        Box::pin(async move {
            let file = pool.run(read?).await.map_err(file_error)?;
            let contents = match file.content {
                files::FileContent::Text(text) => ResourceContents::text("", text),
                files::FileContent::Blob(bytes) => ResourceContents::bytes("", &bytes),
            };
            Ok(ReadResult::new([contents.mime_type(file.mime)]))
        })
    }
}

/// The error for a file that cannot be read. It never contains the path.
fn file_error(error: FileError) -> InvocationError {
    match error {
        FileError::NotFound | FileError::NotAFile => InvocationError::NotFound,
        FileError::TooLarge { .. } => {
            InvocationError::Handler(HandlerError::new("the file is too large to be read"))
        }
        FileError::Io(error) if error.kind() == io::ErrorKind::NotFound => InvocationError::NotFound,
        FileError::Io(error) => InvocationError::Handler(error.into()),
    }
}

/// The maximum size of a file.
const MAX_FILE_BYTES: u64 = 16 << 20;

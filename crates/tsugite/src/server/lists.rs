//! The four list methods. Pages are serialized once per revision and audience and cached until a change.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tsugite_core::jsonrpc::RawJson;
use tsugite_core::protocol::caching::{CacheScope, Cacheable};
use tsugite_core::protocol::pagination::PaginatedParams;
use tsugite_core::protocol::{Method, prompts, resources, tools};
use tsugite_core::revision::{Revision, RpcError, Translate};

use super::connection::ServerConnection;
use super::files::{encode_path, mime_type};
use super::handler::BlockingPool;
use super::incoming_request::IncomingRequest;
use super::lazy_context::LazyContext;
use super::pending::PendingRequest;
use super::principal::Principal;
use super::registry::{RegistryEntry, RegistryList};
use super::resource::{Resource, ResourceLocation};
use super::subject::Subject;
use super::{Config, ServerShared, response_writer};
use crate::lock::lock;
use crate::shared::log;

/// A method that lists registered items.
pub(crate) trait ListMethod: Method<Params = PaginatedParams, Output: Translate + Cacheable> {
    /// The wire type of a listed item.
    type Definition;
    const LIST: RegistryList;

    /// Converts a registry entry; returns `None` for an entry of another kind.
    fn define(name: String, entry: &RegistryEntry, config: &Config) -> Option<Self::Definition>;
    fn build_result(definitions: Vec<Self::Definition>, next: Option<String>) -> Self::Output;
}

macro_rules! list_method {
    ($method:ty, $shown:ident, $entry:ident, $definition:ty, $result:ty, |$name:ident, $of:ident, $config:ident| $define:expr) => {
        impl ListMethod for $method {
            type Definition = $definition;
            const LIST: RegistryList = RegistryList::$shown;

            fn define($name: String, entry: &RegistryEntry, $config: &Config) -> Option<$definition> {
                let RegistryEntry::$entry($of) = entry else { return None };
                Some($define)
            }

            fn build_result(definitions: Vec<$definition>, next: Option<String>) -> $result {
                let mut list = <$result>::new(definitions);
                list.next_cursor = next;
                list
            }
        }
    };
}

list_method!(tools::List, Tools, Tool, tools::Tool, tools::ListResult, |name, entry, config| {
    let mut definition = entry.tool.definition.clone();
    definition.name = name;
    if entry.tool.once {
        let idempotency = config.once.definition(config.store.scope());
        definition.meta.get_or_insert_default().set_idempotency(&idempotency);
    }
    definition
});
list_method!(
    prompts::List,
    Prompts,
    Prompt,
    prompts::Prompt,
    prompts::ListResult,
    |name, prompt, _config| {
        let mut definition = prompt.definition.clone();
        definition.name = name;
        definition
    }
);
list_method!(
    resources::List,
    Resources,
    Resource,
    resources::Resource,
    resources::ListResult,
    |name, resource, _config| definition_at(name, resource)
);
list_method!(
    resources::ListTemplates,
    ResourceTemplates,
    Resource,
    resources::ResourceTemplate,
    resources::ListTemplatesResult,
    |name, resource, _config| {
        let of = resource.definition.clone();
        let mut template = resources::ResourceTemplate::new(name, of.name);
        (template.title, template.description, template.mime_type) = (of.title, of.description, of.mime_type);
        (template.annotations, template.icons, template.meta) = (of.annotations, of.icons, of.meta);
        template
    }
);

fn definition_at(uri: String, resource: &Resource) -> resources::Resource {
    let mut definition = resource.definition.clone();
    definition.uri = uri;
    definition
}

/// Serialized pages. Bounded in number; cleared on every change.
#[derive(Default)]
pub(crate) struct PageCache(Mutex<(u64, CachedPages)>);

/// The keys are not chosen by peers, so a fast hash is safe.
type CachedPages = HashMap<PageKey, Arc<RawJson>, foldhash::fast::RandomState>;

#[derive(PartialEq, Eq, Hash)]
struct PageKey {
    list: &'static str,
    revision: Revision,
    /// A hash of the items the caller sees; `None` if all callers see the same items.
    visibility_digest: Option<Vec<u8>>,
    start: usize,
}

/// Responds with one page of a list.
pub(crate) fn list<L: ListMethod>(
    connection: &ServerConnection,
    request: IncomingRequest<'_>,
) -> Result<(), RpcError> {
    let config = &connection.config;
    send_page(connection, request, L::NAME, L::LIST, &|seen, start, has_rules| {
        let define =
            |(name, entry): (String, RegistryEntry)| Some((name.clone(), L::define(name, &entry, config)?));
        let definitions = seen.into_iter().filter_map(define).collect();
        let page = build_page::<L>(config, definitions, start, has_rules);
        encode_page::<L>(page, request.revision, config)
    })
}

/// Serializes one page of the visible items, from an index on.
type WritePageFn<'a> = &'a dyn Fn(Vec<(String, RegistryEntry)>, usize, bool) -> RawJson;

/// Independent of the list method, so that it is compiled once.
fn send_page(
    connection: &ServerConnection,
    request: IncomingRequest<'_>,
    list: &'static str,
    shown: RegistryList,
    write: WritePageFn<'_>,
) -> Result<(), RpcError> {
    let cursor = read_cursor(request)?;
    let (shared, config, principal) = (&connection.server.shared, &connection.config, request.principal());
    // Read before the registry, so that a change in between is not missed.
    let version = shared.feed.version();
    let has_rules = shared.has_visibility_rules(config);
    let whole = cursor.is_none() && !has_rules;
    let seen = if whole { None } else { Some(shared.visible_entries(config, shown, principal)) };
    let audience = seen.as_ref().filter(|_| has_rules).map(|seen| visibility_digest(seen));
    let start = match &cursor {
        None => 0,
        Some(cursor) => {
            let (position, name) = open_cursor(config, list, cursor)?;
            let seen = seen.as_deref().unwrap_or_default();
            page_start(seen.iter().map(|(name, _)| name.as_str()), position, &name)
        }
    };
    let key = PageKey { list, revision: request.revision, visibility_digest: audience, start };
    let page = shared.page_cache.get(version, key, || {
        write(seen.unwrap_or_else(|| shared.visible_entries(config, shown, principal)), start, has_rules)
    });
    request.writer.send_raw_line(&request.request.id, &page, request.revision);
    Ok(())
}

/// Returns the index at which the requested page begins. `cursor` is the only parameter of a list.
fn read_cursor<'a>(request: IncomingRequest<'a>) -> Result<Option<Cow<'a, str>>, RpcError> {
    request.meta.cursor().map_err(|error| RpcError::invalid_params(&error).with("path", "cursor"))
}

/// Responds with a page of resources including files of directories. Not cached, because files change without notice.
pub(crate) fn list_with_files(
    connection: &Arc<ServerConnection>,
    request: IncomingRequest<'_>,
    context: &LazyContext<'_>,
) -> Result<Option<PendingRequest>, RpcError> {
    let cursor = read_cursor(request)?.map(Cow::into_owned);
    let (server, config, principal) =
        (connection.server.clone(), connection.config.clone(), request.principal().cloned());
    let pool = BlockingPool::from_permits(connection.limits.blocking_permits(request.caller));
    let answer = Box::pin(async move {
        let definitions = pool.run({
            let (shared, config, principal) = (server.shared.clone(), config.clone(), principal.clone());
            move || resources_with_files(&shared, &config, principal.as_ref())
        });
        let definitions = definitions.await;
        let start = match &cursor {
            None => 0,
            Some(cursor) => {
                let (position, name) = open_cursor(&config, resources::List::NAME, cursor)
                    .map_err(super::handler_error::InvocationError::Rpc)?;
                page_start(definitions.iter().map(|(name, _)| name.as_str()), position, &name)
            }
        };
        let has_rules = server.shared.has_visibility_rules(&config);
        Ok(build_page::<resources::List>(&config, definitions, start, has_rules))
    });
    let subject = Subject::from_request(resources::List::NAME, None);
    Ok(connection.run_handler::<resources::List>(
        request,
        context,
        subject,
        answer,
        connection.config.call_timeout,
    ))
}

/// Registered resources first, then the files of directories.
fn resources_with_files(
    shared: &ServerShared,
    config: &Config,
    principal: Option<&Principal>,
) -> Vec<(String, resources::Resource)> {
    let plain = shared.visible_entries(config, RegistryList::Resources, principal).into_iter();
    let define = |(uri, entry): (String, RegistryEntry)| {
        Some((uri.clone(), resources::List::define(uri, &entry, config)?))
    };
    let mut all: Vec<_> = plain.filter_map(define).collect();
    for (template, entry) in shared.visible_entries(config, RegistryList::ResourceTemplates, principal) {
        let RegistryEntry::Resource(resource) = entry else { continue };
        let ResourceLocation::Directory(_, folder) = &resource.location else { continue };
        let root = template.trim_end_matches("{+path}");
        match folder.list(MAX_LISTED_FILES) {
            Ok(listed) => {
                if listed.truncated {
                    log::warn!(
                        root,
                        max = MAX_LISTED_FILES,
                        "a directory contains more files than the listing limit"
                    );
                }
                all.extend(listed.files.into_iter().map(|file| {
                    let uri = format!("{root}{}", encode_path(&file.path));
                    let mut definition = resources::Resource::new(uri.clone(), file.path.clone());
                    definition.size = Some(file.size);
                    definition.mime_type = mime_type(file.path.as_ref()).map(str::to_owned);
                    definition.annotations.clone_from(&resource.definition.annotations);
                    (uri, definition)
                }));
            }
            Err(error) => log::warn!(%error, root, "failed to list a directory"),
        }
    }
    all
}

fn build_page<L: ListMethod>(
    config: &Config,
    definitions: Vec<(String, L::Definition)>,
    start: usize,
    has_rules: bool,
) -> L::Output {
    let mut rest = definitions.into_iter().enumerate().skip(start).peekable();
    let (mut taken, mut last) = (Vec::new(), None);
    while taken.len() < config.page_size {
        let Some((position, (name, definition))) = rest.next() else { break };
        last = Some((position, name));
        taken.push(definition);
    }
    let next = match (rest.peek(), last) {
        (Some(_), Some((position, name))) => seal_cursor(config, L::NAME, position, &name),
        _ => None,
    };
    let mut list = L::build_result(taken, next);
    set_cache_hint(&mut list, config.cache, has_rules);
    list
}

/// Sets the cache hints. A result that depends on the caller is private.
pub(crate) fn set_cache_hint<R: Cacheable>(
    result: &mut R,
    cache: Option<(Duration, CacheScope)>,
    personal: bool,
) {
    if let Some((time, scope)) = cache {
        *result.ttl_ms_mut() = Some(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        *result.cache_scope_mut() = Some(if personal { CacheScope::Private } else { scope });
    }
}

/// Serializes the result alone, without the message around it, on one line.
fn encode_page<L: ListMethod>(list: L::Output, revision: Revision, config: &Config) -> RawJson {
    // Every revision can express lists, so this cannot fail.
    let list = response_writer::encode_result::<L>(list, revision, &config.stamp).unwrap_or_else(|error| {
        log::error!(%error, list = L::NAME, "failed to serialize a list");
        RawJson::empty_object()
    });
    to_single_line(list)
}

/// User-supplied `_meta` may contain newlines between tokens; a space means the same.
fn to_single_line(json: RawJson) -> RawJson {
    const ENDS: [char; 2] = ['\n', '\r'];
    match json.text().contains(ENDS) {
        true => RawJson::parse(json.text().replace(ENDS, " ")).unwrap_or(json),
        false => json,
    }
}

impl PageCache {
    fn get(&self, version: u64, key: PageKey, write: impl FnOnce() -> RawJson) -> Arc<RawJson> {
        let mut pages = lock(&self.0);
        if pages.0 != version {
            *pages = (version, CachedPages::default());
        }
        if let Some(page) = pages.1.get(&key) {
            return page.clone();
        }
        drop(pages);
        let page = Arc::new(write());
        let mut pages = lock(&self.0);
        if pages.0 == version {
            if pages.1.len() >= MAX_CACHED_PAGES {
                pages.1.clear();
            }
            pages.1.insert(key, page.clone());
        }
        page
    }
}

/// Hashes the visible items by name and identity: the same name may be two different items for two callers.
fn visibility_digest(seen: &[(String, RegistryEntry)]) -> Vec<u8> {
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    for (name, entry) in seen {
        digest.update(&name.len().to_le_bytes());
        digest.update(name.as_bytes());
        digest.update(&entry.address().to_le_bytes());
    }
    digest.finish().as_ref().to_vec()
}

/// Returns the index after `name`, or the index `name` would have if it was removed.
fn page_start<'a>(names: impl Iterator<Item = &'a str>, position: usize, name: &str) -> usize {
    let mut names = names.enumerate();
    names.find(|(_, known)| *known == name).map_or(position, |(at, _)| at + 1)
}

fn seal_cursor(config: &Config, list: &str, position: usize, name: &str) -> Option<String> {
    let plain = format!("{position} {name}");
    let parts = cursor_binding(list);
    let sealed = config.key_ring.ring().and_then(|ring| ring.seal(plain.as_bytes(), &parts, never_expires()));
    sealed.inspect_err(|error| log::error!(%error, "failed to seal a cursor")).ok()
}

fn open_cursor(config: &Config, list: &str, cursor: &str) -> Result<(usize, String), RpcError> {
    let parts = cursor_binding(list);
    let ring = config.key_ring.ring().ok();
    let plain = ring.and_then(|ring| ring.open(cursor, &parts, SystemTime::now(), MAX_CURSOR_BYTES).ok());
    let plain = plain.and_then(|plain| String::from_utf8(plain).ok());
    let parts = plain.as_deref().and_then(|plain| plain.split_once(' '));
    parts.and_then(|(position, name)| Some((position.parse().ok()?, name.to_owned()))).ok_or_else(|| {
        RpcError::InvalidParams("Invalid params: `cursor` does not belong to this list".into())
            .with("path", "cursor")
            .with("cursor", cursor)
    })
}

/// A cursor is bound to its list. Visibility is checked again for the caller who uses it.
fn cursor_binding(list: &str) -> [&[u8]; 2] {
    [b"cursor", list.as_bytes()]
}

/// A cursor holds only a position, so it does not expire: this is the year 19391. The clock of Windows ends in 30828.
fn never_expires() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 39)
}

/// The maximum number of cached pages.
const MAX_CACHED_PAGES: usize = 256;

/// The maximum number of files listed per directory.
const MAX_LISTED_FILES: usize = 10_000;

/// The maximum length of a cursor, in bytes.
const MAX_CURSOR_BYTES: usize = 64 << 10;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn multiline_json_becomes_one_equal_line() {
        for (text, line) in
            [("{\r\n \"a\": \"x\\n\"\n}", "{   \"a\": \"x\\n\" }"), ("{\"a\":1}", "{\"a\":1}")]
        {
            assert_eq!(to_single_line(RawJson::parse(text).unwrap()).text(), line);
        }
    }
}

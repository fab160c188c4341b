//! [`UserFile`]: users in a JSON file that only its owner can read.
//!
//! The file may hold other members, which stay as they are: the settings of `tsugite serve --auth` are in the same file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::password::{hash_password, is_password_hash, verify_password};
use super::{User, UserFuture, Users, is_local_subject};
use crate::authorization_server::records::hex_digest;
use crate::error::{AuthError, Result};
use crate::private_file::{PrivateFile, blocking};
use crate::secret::Secret;

/// Users in a file of mode 0600, with Argon2id hashes of their passwords. It is read at each login, so that a change takes
/// effect at once: a changed password ends earlier sessions, refresh tokens and consents of the user.
///
/// ```json
/// { "users": [{ "name": "ann", "password": "$argon2id$v=19$…" }] }
/// ```
#[derive(Clone)]
pub struct UserFile {
    file: PrivateFile,
    /// Hashing takes 19 MiB and a core.
    hashing: Arc<Semaphore>,
}

impl UserFile {
    /// Uses the file at a path. It is created when the first user is added.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { file: PrivateFile::new(path), hashing: Arc::new(Semaphore::new(MAX_CONCURRENT_HASHES)) }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The names of all users, in the order in which they were added.
    pub async fn names(&self) -> Result<Vec<String>> {
        let file = self.file.clone();
        blocking(move || Ok(Document::read(&file)?.names())).await
    }

    /// Adds a user, or changes the password of one. Returns whether the user is new.
    ///
    /// Fails if the name is longer than 64 characters or contains characters that could be confused with something else, and
    /// if the password is shorter than 8 or longer than 1,024 bytes.
    pub async fn set_password(&self, name: &str, password: Secret) -> Result<bool> {
        let is_plain = |letter: char| letter.is_alphanumeric() || "._-@+ ".contains(letter);
        let is_valid = is_local_subject(name) && name.chars().all(is_plain) && name.trim() == name;
        if !is_valid || name.chars().count() > MAX_NAME_CHARS {
            return Err(AuthError::config(format!(
                "{name:?} cannot be the name of a user: up to {MAX_NAME_CHARS} letters, digits and `._-@+`"
            )));
        }
        let length = password.expose().len();
        if !(MIN_PASSWORD_BYTES..=MAX_PASSWORD_BYTES).contains(&length) {
            return Err(AuthError::config(format!(
                "the password has {length} bytes; it needs at least {MIN_PASSWORD_BYTES}"
            )));
        }
        let _lock = self.file.take_lock().await?;
        let (file, name) = (self.file.clone(), name.to_owned());
        blocking(move || {
            let mut document = Document::read(&file)?;
            let is_new = document.set(&name, &hash_password(&password)?);
            document.write(&file)?;
            Ok(is_new)
        })
        .await
    }

    /// Removes a user. Returns false if there is none.
    pub async fn remove(&self, name: &str) -> Result<bool> {
        let _lock = self.file.take_lock().await?;
        let (file, name) = (self.file.clone(), name.to_owned());
        blocking(move || {
            let mut document = Document::read(&file)?;
            let removed = document.remove(&name);
            if removed {
                document.write(&file)?;
            }
            Ok(removed)
        })
        .await
    }
}

impl UserFile {
    /// Fails if the file cannot be read, or if a user in it has no name or no usable hash.
    pub(in crate::authorization_server) fn check(&self) -> Result<()> {
        let users = Document::read(&self.file)?.users;
        let has_no_hash = |user: &&Value| !hash_of(user).is_some_and(is_password_hash);
        if let Some(name) = users.iter().find(has_no_hash).and_then(name_of) {
            return Err(self.file.error(format!(
                "the `password` of the user {name:?} is no hash in the PHC format; `tsugite users add` writes one"
            )));
        }
        Ok(())
    }
}

impl Users for UserFile {
    fn check_password(&self, name: String, password: Secret) -> UserFuture<Option<User>> {
        let (file, hashing) = (self.file.clone(), Arc::clone(&self.hashing));
        Box::pin(async move {
            let permit = tokio::time::timeout(MAX_HASHING_WAIT, hashing.acquire_owned()).await;
            let permit = permit.map_err(|_| {
                AuthError::store(format!(
                    "too many passwords are verified at once; this one waited for {} seconds",
                    MAX_HASHING_WAIT.as_secs()
                ))
            })?;
            let permit = permit.map_err(|_| AuthError::store("passwords are no longer verified"))?;
            blocking(move || {
                let document = Document::read(&file)?;
                let hash = document.hash(&name);
                let verified = verify_password(&password, hash);
                drop(permit);
                // Each hash has a salt of its own: the same password, set again, is another generation.
                let generation = hash.map(hex_digest).unwrap_or_default();
                Ok(verified.then(|| User::new(name).generation(generation)))
            })
            .await
        })
    }

    fn generation(&self, subject: String) -> UserFuture<Option<String>> {
        let file = self.file.clone();
        Box::pin(blocking(move || Ok(Document::read(&file)?.hash(&subject).map(hex_digest))))
    }
}

impl fmt::Debug for UserFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserFile").field("path", &self.file.path()).finish_non_exhaustive()
    }
}

/// The content of the file.
struct Document {
    members: Map<String, Value>,
    users: Vec<Value>,
}

impl Document {
    fn read(file: &PrivateFile) -> Result<Self> {
        let mut members: Map<String, Value> = match file.read()? {
            Some(text) => serde_json::from_str(&text).map_err(|error| file.malformed(&error))?,
            None => Map::new(),
        };
        let users = match members.get_mut(USERS).map(Value::take) {
            None => Vec::new(),
            Some(Value::Array(users)) => users,
            Some(_) => return Err(file.error("`users` is not a list")),
        };
        if users.iter().any(|user| name_of(user).is_none() || hash_of(user).is_none()) {
            return Err(file.error("each of `users` needs a `name` and a `password`"));
        }
        Ok(Self { members, users })
    }

    fn write(mut self, file: &PrivateFile) -> Result<()> {
        self.members.insert(USERS.to_owned(), Value::Array(self.users));
        let mut text = serde_json::to_vec_pretty(&self.members).map_err(|error| file.error(error))?;
        text.push(b'\n');
        file.replace(&text)
    }

    fn names(&self) -> Vec<String> {
        self.users.iter().filter_map(name_of).map(str::to_owned).collect()
    }

    fn hash(&self, name: &str) -> Option<&str> {
        self.users.iter().find(|user| name_of(user) == Some(name)).and_then(hash_of)
    }

    fn set(&mut self, name: &str, hash: &str) -> bool {
        let known = self.users.iter_mut().find(|user| name_of(user) == Some(name));
        match known.and_then(Value::as_object_mut) {
            Some(user) => {
                user.insert(PASSWORD.to_owned(), json!(hash));
                false
            }
            None => {
                self.users.push(json!({ NAME: name, PASSWORD: hash }));
                true
            }
        }
    }

    fn remove(&mut self, name: &str) -> bool {
        let before = self.users.len();
        self.users.retain(|user| name_of(user) != Some(name));
        self.users.len() < before
    }
}

fn name_of(user: &Value) -> Option<&str> {
    user.get(NAME)?.as_str()
}

fn hash_of(user: &Value) -> Option<&str> {
    user.get(PASSWORD)?.as_str()
}

const USERS: &str = "users";
const NAME: &str = "name";
const PASSWORD: &str = "password";
const MAX_NAME_CHARS: usize = 64;
const MIN_PASSWORD_BYTES: usize = 8;
pub(in crate::authorization_server) const MAX_PASSWORD_BYTES: usize = 1_024;
const MAX_CONCURRENT_HASHES: usize = 2;
/// A login that waits for longer gets 503.
const MAX_HASHING_WAIT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn login_does_not_wait_long_for_others() {
        let users = UserFile::new("/nonexistent/auth.json");
        let _others =
            Arc::clone(&users.hashing).acquire_many_owned(MAX_CONCURRENT_HASHES as u32).await.unwrap();
        let error = users.check_password("ann".to_owned(), Secret::new("x")).await.unwrap_err();
        assert!(error.to_string().contains("too many passwords"), "{error}");
    }
}

//! Opening of the file, and its creation.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use redb::{Builder, Database, DatabaseError, ReadableDatabase};

use super::error::{FileStoreError, Reason};
use super::private::{create_private, sync_folder};
use super::tables;

/// Makes a database of an open file.
pub(super) type MakeDatabase = Box<dyn Fn(&Builder, File) -> Result<Database, DatabaseError> + Send>;

/// A file that can be opened, and opened again after a failure.
pub(super) struct Opener {
    path: PathBuf,
    make: MakeDatabase,
}

impl Opener {
    pub(super) fn new(path: &Path, make: MakeDatabase) -> Self {
        Self { path: path.to_owned(), make }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the store, and creates it if there is no file.
    pub(super) fn open_or_create(&self) -> Result<Database, FileStoreError> {
        self.caught(|| {
            match fs::metadata(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => create(&self.path)?,
                Err(error) => return Err(Reason::Io(error)),
                Ok(_) => {}
            }
            let mut opened = self.open_existing();
            for _ in 0..OPEN_RETRIES {
                if !matches!(opened, Err(Reason::InUse)) {
                    break;
                }
                // A process that is about to open the file, too, looks at it first, and then gives it free for a moment.
                thread::sleep(OPEN_RETRY_INTERVAL);
                opened = self.open_existing();
            }
            opened
        })
    }

    /// Opens the store that was there before.
    pub(super) fn open(&self) -> Result<Database, FileStoreError> {
        self.caught(|| self.open_existing())
    }

    /// The database engine panics on some damaged files.
    fn caught(&self, open: impl FnOnce() -> Result<Database, Reason>) -> Result<Database, FileStoreError> {
        let opened = catch_unwind(AssertUnwindSafe(open));
        let opened = opened.unwrap_or_else(|_| Err(Reason::Damaged("the database engine panicked".into())));
        opened.map_err(|reason| FileStoreError::new(&self.path, reason))
    }

    fn open_existing(&self) -> Result<Database, Reason> {
        let metadata = fs::metadata(&self.path).map_err(Reason::Io)?;
        if !metadata.is_file() {
            return Err(Reason::NotAFile);
        }
        if metadata.len() == 0 {
            return Err(Reason::NotAStore);
        }
        // First without writing, so that a database of another program is left as it is.
        match builder().open_read_only(&self.path) {
            Ok(database) => check_format(&database)?,
            // It was not closed, and only opening it for writing repairs it.
            Err(DatabaseError::RepairAborted) => {}
            Err(error) => return Err(error.into()),
        }
        let file = OpenOptions::new().read(true).write(true).open(&self.path).map_err(Reason::Io)?;
        let database = (self.make)(&builder(), file)?;
        check_format(&database)?;
        Ok(database)
    }
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn check_format(database: &impl ReadableDatabase) -> Result<(), Reason> {
    let transaction = database.begin_read().map_err(|error| Reason::Damaged(error.into()))?;
    match tables::format(&transaction).map_err(Reason::Damaged)? {
        Some(format) if format == u64::from(tables::FORMAT) => Ok(()),
        Some(format) => Err(Reason::Newer(format)),
        None => Err(Reason::NotAStore),
    }
}

/// Creates a store under a name of its own and then gives it its name, so that a file with that name is always complete.
fn create(path: &Path) -> Result<(), Reason> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(Reason::NotAFile)?;
    if !folder.is_dir() {
        return Err(Reason::NoFolder);
    }
    let mut new = name.to_owned();
    let number = CREATED.fetch_add(1, Ordering::Relaxed);
    new.push(format!(".{}-{number}.new", std::process::id()));
    let new = folder.join(new);
    // Left by a process that had this number and was killed here.
    drop(fs::remove_file(&new));
    let created = fill(&new).and_then(|()| give_name(&new, path).map_err(Reason::Io));
    drop(fs::remove_file(&new));
    created?;
    sync_folder(folder).map_err(Reason::Io)
}

fn fill(path: &Path) -> Result<(), Reason> {
    let database = builder().create_file(create_private(path).map_err(Reason::Io)?)?;
    tables::create(&database).map_err(Reason::Damaged)
}

/// Never replaces a file: the one of a process that was faster is opened instead.
fn give_name(new: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(new, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // A file system without links.
        Err(_) if !path.exists() => fs::rename(new, path),
        linked => linked,
    }
}

/// The number of files that this process has begun to create.
static CREATED: AtomicU64 = AtomicU64::new(0);

const OPEN_RETRIES: u32 = 10;
const OPEN_RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The most memory that the engine uses for pages of the file.
const CACHE_BYTES: usize = 64 << 20;

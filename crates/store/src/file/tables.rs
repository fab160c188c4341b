//! The tables of the file, and the form of their rows.
//!
//! A row is the number of the format, then numbers of eight bytes, then any bytes. The first number of a record, a log and a
//! queue is the time at which it expires.

use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableDefinition,
    TableError, WriteTransaction,
};

use crate::StoreError;

/// The format that this version writes, and the only one that it reads.
pub(super) const FORMAT: u8 = 1;

/// The numbers that belong to the whole file.
pub(super) type Meta = TableDefinition<'static, &'static str, u64>;
/// A name and its row.
pub(super) type Heads = TableDefinition<'static, &'static str, &'static [u8]>;
/// A name, a part of it and its row.
type NamedParts = TableDefinition<'static, (&'static str, &'static str), &'static [u8]>;
type NumberedParts = TableDefinition<'static, (&'static str, u64), &'static [u8]>;

const META: Meta = TableDefinition::new("meta");
const RECORDS: Heads = TableDefinition::new("records");
const FIELDS: NamedParts = TableDefinition::new("fields");
const LOGS: Heads = TableDefinition::new("logs");
const EVENTS: NumberedParts = TableDefinition::new("events");
const QUEUES: Heads = TableDefinition::new("queues");
const MESSAGES: NumberedParts = TableDefinition::new("messages");

/// The tables as the last commit left them.
pub(super) struct Snapshot {
    /// Expiry.
    pub(super) records: ReadOnlyTable<&'static str, &'static [u8]>,
    /// Version, then the value.
    pub(super) fields: ReadOnlyTable<(&'static str, &'static str), &'static [u8]>,
    /// See [`LogRow`](super::logs::LogRow).
    pub(super) logs: ReadOnlyTable<&'static str, &'static [u8]>,
    /// The number of the last event, then the events.
    pub(super) events: ReadOnlyTable<(&'static str, u64), &'static [u8]>,
    /// See [`QueueRow`](super::queues::QueueRow).
    pub(super) queues: ReadOnlyTable<&'static str, &'static [u8]>,
    /// The message.
    pub(super) messages: ReadOnlyTable<(&'static str, u64), &'static [u8]>,
    pub(super) counters: Counters,
}

impl Snapshot {
    pub(super) fn new(database: &Database) -> Result<Self, StoreError> {
        let transaction = database.begin_read()?;
        Ok(Self {
            records: transaction.open_table(RECORDS)?,
            fields: transaction.open_table(FIELDS)?,
            logs: transaction.open_table(LOGS)?,
            events: transaction.open_table(EVENTS)?,
            queues: transaction.open_table(QUEUES)?,
            messages: transaction.open_table(MESSAGES)?,
            counters: Counters::load(&transaction.open_table(META)?)?,
        })
    }
}

/// The tables in a transaction that writes.
pub(super) struct Tables<'t> {
    pub(super) records: Table<'t, &'static str, &'static [u8]>,
    pub(super) fields: Table<'t, (&'static str, &'static str), &'static [u8]>,
    pub(super) logs: Table<'t, &'static str, &'static [u8]>,
    pub(super) events: Table<'t, (&'static str, u64), &'static [u8]>,
    pub(super) queues: Table<'t, &'static str, &'static [u8]>,
    pub(super) messages: Table<'t, (&'static str, u64), &'static [u8]>,
    pub(super) counters: Counters,
    /// The time of the transaction.
    pub(super) now: u64,
    pub(super) max_log_bytes: u64,
    /// Whether something was written.
    pub(super) changed: bool,
    /// Whether a message was sent.
    pub(super) sent: bool,
}

impl<'t> Tables<'t> {
    pub(super) fn open(
        transaction: &'t WriteTransaction,
        now: u64,
        max_log_bytes: u64,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            records: transaction.open_table(RECORDS)?,
            fields: transaction.open_table(FIELDS)?,
            logs: transaction.open_table(LOGS)?,
            events: transaction.open_table(EVENTS)?,
            queues: transaction.open_table(QUEUES)?,
            messages: transaction.open_table(MESSAGES)?,
            counters: Counters::load(&transaction.open_table(META)?)?,
            now,
            max_log_bytes,
            changed: false,
            sent: false,
        })
    }
}

/// Numbers that every commit saves.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    /// The version of the last commit.
    pub(super) version: u64,
    /// The number of the last message.
    pub(super) message: u64,
    /// The bytes of all logs.
    pub(super) logged: u64,
    /// The time of the last commit.
    pub(super) time: u64,
}

impl Counters {
    fn load(meta: &impl ReadableTable<&'static str, u64>) -> Result<Self, StoreError> {
        let number = |name: &str| Ok::<_, StoreError>(meta.get(name)?.map_or(0, |number| number.value()));
        Ok(Self {
            version: number("version")?,
            message: number("message")?,
            logged: number("logged")?,
            time: number("time")?,
        })
    }

    pub(super) fn save(self, transaction: &WriteTransaction) -> Result<(), StoreError> {
        let mut meta = transaction.open_table(META)?;
        meta.insert("version", self.version)?;
        meta.insert("message", self.message)?;
        meta.insert("logged", self.logged)?;
        meta.insert("time", self.time)?;
        Ok(())
    }
}

/// Makes the tables of a new file.
pub(super) fn create(database: &Database) -> Result<(), StoreError> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert("format", u64::from(FORMAT))?;
    drop(Tables::open(&transaction, 0, 0)?);
    transaction.commit()?;
    Ok(())
}

/// The format of a file; `None` if it is a database of another program.
pub(super) fn format(transaction: &ReadTransaction) -> Result<Option<u64>, StoreError> {
    match transaction.open_table(META) {
        Ok(meta) => Ok(meta.get("format")?.map(|format| format.value())),
        Err(TableError::Storage(error)) => Err(error.into()),
        Err(_) => Ok(None),
    }
}

pub(super) fn encode(numbers: &[u64], bytes: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(1 + 8 * numbers.len() + bytes.len());
    row.push(FORMAT);
    numbers.iter().for_each(|number| row.extend_from_slice(&number.to_le_bytes()));
    row.extend_from_slice(bytes);
    row
}

pub(super) fn decode<const N: usize>(row: &[u8]) -> Result<([u64; N], &[u8]), StoreError> {
    let Some((&FORMAT, mut rest)) = row.split_first() else {
        return Err("a row of the file is damaged or of a newer version".into());
    };
    let mut numbers = [0; N];
    for number in &mut numbers {
        let (bytes, later) = rest.split_first_chunk().ok_or("a row of the file is too short")?;
        *number = u64::from_le_bytes(*bytes);
        rest = later;
    }
    Ok((numbers, rest))
}

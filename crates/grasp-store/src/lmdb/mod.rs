//! The wall around LMDB: nothing outside names its types except through [`Table`] and transactions.
//!
//! The map is reserved once and huge (address space, not disk) because growing it later would unmap
//! what readers look at; where address space is limited it is halved until it fits. Commits are
//! synced by LMDB itself, so a commit that returned is on the disk. `WRITE_MAP` is never set: with
//! it a full disk kills the process.

use std::path::Path;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions, WithoutTls};

use crate::error::EngineError;

/// A table of bytes to bytes.
pub(crate) type Table = Database<'static, Bytes, Bytes>;
/// A read transaction, or the readable side of a write transaction.
pub(crate) type Reading<'a> = heed::RoTxn<'a, WithoutTls>;
/// The one write transaction.
pub(crate) type Transaction<'a> = heed::RwTxn<'a>;
/// The open environment. Cheap to clone.
pub(crate) type Environment = Env<WithoutTls>;

/// Smaller maps are of no use: better to say that there is no address space.
const MAP_MIN: u64 = 64 << 20;

/// Opens the environment in `dir` with the largest map that fits, at most `map_size`.
pub(crate) fn open(
    dir: &Path,
    map_size: u64,
    readers_max: u32,
) -> Result<Environment, EngineError> {
    let page = 64 << 10;
    let mut size = map_size.max(MAP_MIN) / page * page;
    loop {
        match open_with(dir, size, readers_max) {
            Err(heed::Error::Io(error)) if no_address_space(&error) && size / 2 >= MAP_MIN => {
                size = size / 2 / page * page;
            }
            outcome => {
                let environment = outcome?;
                // A process that was killed leaves its reader slots, and they pin pages.
                environment.clear_stale_readers()?;
                return Ok(environment);
            }
        }
    }
}

fn no_address_space(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::OutOfMemory
        || error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error())
        || error.raw_os_error() == Some(rustix::io::Errno::OVERFLOW.raw_os_error())
}

#[expect(
    unsafe_code,
    reason = "LMDB maps a file: the one call that needs it, docs/adr/0002"
)]
fn open_with(dir: &Path, size: u64, readers_max: u32) -> Result<Environment, heed::Error> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options
        .map_size(usize::try_from(size).unwrap_or(usize::MAX))
        .max_dbs(64)
        .max_readers(readers_max);
    // SAFETY: mapped memory must not change behind our back. The folder is ours alone: the format
    // file says so and the lock file keeps a second process out (CLI-2), both checked before we
    // get here; heed itself refuses to open one folder twice in a process. docs/adr/0002.
    unsafe { options.open(dir) }
}

/// Opens the named tables, creating those that are missing, in one transaction.
pub(crate) fn tables<const N: usize>(
    environment: &Environment,
    names: [&str; N],
) -> Result<[Table; N], EngineError>
where
    [Database<'static, Bytes, Bytes>; N]: Sized,
{
    let transaction = environment.write_txn()?;
    let tables = environment
        .create_databases_and_commit(transaction, |opener, transaction| {
            let mut tables = Vec::with_capacity(N);
            for name in names {
                tables.push(opener.create_database::<Bytes, Bytes>(transaction, Some(name))?);
            }
            let tables: [Database<'_, Bytes, Bytes>; N] = tables
                .try_into()
                .unwrap_or_else(|_| unreachable!("one table for each name"));
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(tables))
        })?
        .unwrap_commit();
    Ok(tables)
}

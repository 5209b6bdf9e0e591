//! Makes sure that a folder is ours before anything is written into it (CLI-2, CLI-4).

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::error::OpenError;

/// The format that this version writes. An older one is brought up to date by `upgrade`.
///
/// 2: requests to delete and to vanish have a row of their own (DEL-9).
pub(crate) const FORMAT: u32 = 2;

const FOLDER: &str = "ngit-grasp";
const FORMAT_FILE: &str = "format";
const FORMAT_NEW: &str = "format.new";
const LOCK_FILE: &str = "lock";
const FORMAT_LINE: &str = "ngit-grasp store ";

/// Our folder, locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// What wrote the tables, as far as it can be read.
    pub(crate) format: u32,
    _lock: Lock,
}

/// The lock of a folder.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    /// Closing is not enough: a child that is between its fork and its exec has the file open too.
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

impl Folder {
    /// Takes `<dir>/ngit-grasp`, making it if it is missing. What is not ours stays untouched.
    pub(crate) fn take(dir: &Path) -> Result<Self, OpenError> {
        refuse_foreign_parent(dir)?;
        let path = dir.join(FOLDER);
        refuse_foreign(&path)?;
        let failed = |source| OpenError::Io {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(&path).map_err(failed)?;
        let lock = File::create(path.join(LOCK_FILE)).map_err(failed)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(OpenError::Locked { path }),
            Err(errno) => return Err(failed(errno.into())),
        }
        let found = read_format(&path)?;
        if found.is_none() {
            write_format(&path).map_err(failed)?;
        }
        Ok(Self {
            path,
            format: found.unwrap_or(FORMAT),
            _lock: Lock(lock),
        })
    }

    /// The tables are in the newest format. An older program refuses them from now on.
    pub(crate) fn upgraded(&mut self) -> Result<(), OpenError> {
        write_format(&self.path).map_err(|source| OpenError::Io {
            path: self.path.clone(),
            source,
        })?;
        self.format = FORMAT;
        Ok(())
    }
}

/// Whether a store of ours is in `<dir>/ngit-grasp`. Writes nothing; what is not ours is refused.
pub(crate) fn is_at(dir: &Path) -> Result<bool, OpenError> {
    refuse_foreign_parent(dir)?;
    let path = dir.join(FOLDER);
    refuse_foreign(&path)?;
    Ok(read_format(&path)?.is_some())
}

/// The public server keeps its database directly in the relay folder.
fn refuse_foreign_parent(dir: &Path) -> Result<(), OpenError> {
    for name in ["data.mdb", "lock.mdb", "purgatory-state.json"] {
        if dir.join(name).exists() {
            return Err(OpenError::Foreign {
                path: dir.to_owned(),
                found: name.to_owned(),
            });
        }
    }
    Ok(())
}

/// Without our format file, only what a start that was cut short leaves behind may be there.
fn refuse_foreign(path: &Path) -> Result<(), OpenError> {
    if read_format(path)?.is_some() {
        return Ok(());
    }
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => {
            return Err(OpenError::Io {
                path: path.to_owned(),
                source,
            });
        }
    };
    for entry in entries {
        let entry = entry.map_err(|source| OpenError::Io {
            path: path.to_owned(),
            source,
        })?;
        let name = entry.file_name();
        if name != LOCK_FILE && name != FORMAT_NEW {
            let found = name.to_string_lossy().into_owned();
            return Err(OpenError::Foreign {
                path: path.to_owned(),
                found,
            });
        }
    }
    Ok(())
}

fn read_format(path: &Path) -> Result<Option<u32>, OpenError> {
    let text = match fs::read_to_string(path.join(FORMAT_FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => String::new(),
        Err(source) => {
            return Err(OpenError::Io {
                path: path.to_owned(),
                source,
            });
        }
    };
    let Some(number) = text.trim_end().strip_prefix(FORMAT_LINE) else {
        let found = FORMAT_FILE.to_owned();
        return Err(OpenError::Foreign {
            path: path.to_owned(),
            found,
        });
    };
    match number.parse() {
        Ok(format @ 1..=FORMAT) => Ok(Some(format)),
        _ => Err(OpenError::Format {
            path: path.to_owned(),
            found: number.to_owned(),
        }),
    }
}

fn write_format(path: &Path) -> io::Result<()> {
    let new = path.join(FORMAT_NEW);
    let mut file = File::create(&new)?;
    writeln!(file, "{FORMAT_LINE}{FORMAT}")?;
    file.sync_all()?;
    fs::rename(new, path.join(FORMAT_FILE))?;
    File::open(path)?.sync_all()
}

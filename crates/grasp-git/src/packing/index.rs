//! The index of a pack, version 2.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use grasp_core::oid::Oid;

/// One object of a pack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) oid: Oid,
    pub(super) crc: u32,
    pub(super) offset: u64,
}

/// Offsets from here on stand in a table of their own.
const LARGE: u64 = 1 << 31;

/// Writes the index of the pack with the sum `pack`.
pub(super) fn write(path: &Path, mut rows: Vec<Row>, pack: &[u8]) -> io::Result<()> {
    rows.sort_unstable_by_key(|row| row.oid);
    let mut out = Summed {
        file: BufWriter::new(File::create_new(path)?),
        hasher: gix_hash::hasher(gix_hash::Kind::Sha1),
    };
    out.put(b"\xfftOc\0\0\0\x02")?;
    let mut count = 0_usize;
    for first in 0..=u8::MAX {
        let more = rows[count..]
            .iter()
            .take_while(|row| row.oid.as_bytes()[0] == first);
        count += more.count();
        out.put(
            &u32::try_from(count)
                .map_err(io::Error::other)?
                .to_be_bytes(),
        )?;
    }
    for row in &rows {
        out.put(row.oid.as_bytes())?;
    }
    for row in &rows {
        out.put(&row.crc.to_be_bytes())?;
    }
    let mut large = Vec::new();
    for row in &rows {
        let short = match u32::try_from(row.offset) {
            Ok(offset) if row.offset < LARGE => offset,
            _ => {
                large.push(row.offset);
                u32::try_from(large.len() - 1).map_err(io::Error::other)? | 1 << 31
            }
        };
        out.put(&short.to_be_bytes())?;
    }
    for offset in large {
        out.put(&offset.to_be_bytes())?;
    }
    out.put(pack)?;
    out.end()
}

struct Summed {
    file: BufWriter<File>,
    hasher: gix_hash::Hasher,
}

impl Summed {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.file.write_all(bytes)
    }

    fn end(mut self) -> io::Result<()> {
        let sum = self.hasher.try_finalize().map_err(io::Error::other)?;
        self.file.write_all(sum.as_slice())?;
        self.file.flush()
    }
}

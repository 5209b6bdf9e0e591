//! Writes a pack of needed objects.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use gix_pack::data::entry::Header;
use grasp_core::oid::Oid;

use super::index::{self, Row};
use super::reach::{Needed, Sources};
use crate::error::{Attempt, Error};
use crate::objects::{ObjectKind, Pack, decode, from_gix};

const DELTA_CACHE_BYTES: usize = 32 << 20;

/// Writes `needed` into `folder`, as `pack-<sum>.pack` and `.idx`, not durable yet. Returns the index.
pub(crate) fn write(
    folder: &Path,
    needed: &Needed,
    sources: &Sources<'_>,
) -> Result<PathBuf, Error> {
    let fresh = folder.join("exact.pack");
    let file = File::create_new(&fresh).attempt("create", &fresh)?;
    let mut out = Output {
        path: fresh.clone(),
        file: BufWriter::with_capacity(256 << 10, file),
        hasher: gix_hash::hasher(gix_hash::Kind::Sha1),
        at: 0,
        rows: Vec::with_capacity(needed.objects as usize),
    };
    write_pack(&mut out, needed, sources)?;
    let (sum, rows) = out.end().attempt("write", &fresh)?;
    let hex: String = from_gix(&sum).to_string();
    let pack = folder.join(format!("pack-{hex}.pack"));
    let index = pack.with_extension("idx");
    fs::rename(&fresh, &pack).attempt("name", &pack)?;
    index::write(&index, rows, sum.as_slice()).attempt("write", &index)?;
    Ok(index)
}

fn write_pack(out: &mut Output, needed: &Needed, sources: &Sources<'_>) -> Result<(), Error> {
    let mut head = b"PACK\0\0\0\x02".to_vec();
    head.extend(needed.objects.to_be_bytes());
    out.put(&head).attempt("write", &out.path)?;
    for (pack, marks) in &needed.packs {
        copy_pack(out, pack, marks)?;
    }
    let mut buffer = Vec::new();
    for oid in &needed.loose {
        let kind = sources.loose(oid, &mut buffer)?;
        out.whole(*oid, kind, &buffer).attempt("write", &out.path)?;
    }
    Ok(())
}

/// An entry that is copied, in the order of the old pack.
struct Copied {
    offset: u64,
    entry: u32,
    /// Where it stands in the new pack.
    to: u64,
}

fn copy_pack(out: &mut Output, pack: &Pack, marks: &[bool]) -> Result<(), Error> {
    let mut chosen: Vec<Copied> = (0..pack.index.num_objects())
        .filter(|entry| marks[*entry as usize])
        .map(|entry| Copied {
            offset: pack.index.pack_offset_at_index(entry),
            entry,
            to: 0,
        })
        .collect();
    if chosen.is_empty() {
        return Ok(());
    }
    chosen.sort_unstable_by_key(|copied| copied.offset);
    let offsets = pack.index.sorted_offsets();
    let mut cache = gix_pack::cache::lru::MemoryCappedHashmap::new(DELTA_CACHE_BYTES);
    let mut inflate = gix_zlib::Inflate::default();
    let mut buffer = Vec::new();

    for nth in 0..chosen.len() {
        let Copied { offset, entry, .. } = chosen[nth];
        chosen[nth].to = out.at;
        let oid = from_gix(pack.index.oid_at_index(entry));
        let head = pack.entry(offset)?;
        let header = match head.header {
            Header::OfsDelta { base_distance } => {
                let base = offset.saturating_sub(base_distance);
                let base = chosen[..nth].binary_search_by_key(&base, |copied| copied.offset);
                base.ok().map(|base| Header::OfsDelta {
                    base_distance: out.at - chosen[base].to,
                })
            }
            Header::RefDelta { base_id } => {
                let base = pack.index.lookup(base_id);
                let comes_along = base.is_some_and(|base| marks[base as usize]);
                comes_along.then_some(head.header)
            }
            whole => Some(whole),
        };
        if let Some(header) = header {
            let after = offsets.partition_point(|start| *start <= offset);
            let end = offsets.get(after).copied();
            let end = end.unwrap_or(pack.data().pack_end() as u64);
            let raw = raw_entry(pack, entry, offset, end)?;
            out.copy(
                oid,
                header,
                head.decompressed_size,
                &raw[head.header_size()..],
            )
            .attempt("write", &out.path)?;
        } else {
            let kind = decode(pack, offset, &mut buffer, &mut inflate, &mut cache)?;
            out.whole(oid, kind, &buffer).attempt("write", &out.path)?;
        }
    }
    Ok(())
}

/// The bytes of an entry as they lie in the pack, if they are still what was indexed: a bad sector must not
/// spread to other repositories.
fn raw_entry(pack: &Pack, entry: u32, offset: u64, end: u64) -> Result<&[u8], Error> {
    let damaged = |problem: &str| Error::Damaged {
        oid: from_gix(pack.index.oid_at_index(entry)),
        problem: problem.to_owned(),
    };
    let raw = pack
        .data()
        .entry_slice(offset..end)
        .ok_or_else(|| damaged("it reaches past the end of its pack"))?;
    let mut crc = Crc::new();
    crc.update(raw);
    match pack.index.crc32_at_index(entry) {
        Some(indexed) if indexed != crc.sum() => Err(damaged("its bytes have changed on the disk")),
        _ => Ok(raw),
    }
}

struct Output {
    path: PathBuf,
    file: BufWriter<File>,
    hasher: gix_hash::Hasher,
    at: u64,
    rows: Vec<Row>,
}

impl Output {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.at += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    fn copy(&mut self, oid: Oid, header: Header, size: u64, compressed: &[u8]) -> io::Result<()> {
        let mut head = Vec::with_capacity(32);
        header.write_to(size, &mut head)?;
        let mut crc = Crc::new();
        crc.update(&head);
        crc.update(compressed);
        self.rows.push(Row {
            oid,
            crc: crc.sum(),
            offset: self.at,
        });
        self.put(&head)?;
        self.put(compressed)
    }

    fn whole(&mut self, oid: Oid, kind: ObjectKind, data: &[u8]) -> io::Result<()> {
        let header = match kind {
            ObjectKind::Commit => Header::Commit,
            ObjectKind::Tree => Header::Tree,
            ObjectKind::Blob => Header::Blob,
            ObjectKind::Tag => Header::Tag,
        };
        let mut deflate = ZlibEncoder::new(Vec::new(), Compression::default());
        deflate.write_all(data)?;
        let compressed = deflate.finish()?;
        self.copy(oid, header, data.len() as u64, &compressed)
    }

    fn end(&mut self) -> io::Result<(gix_hash::ObjectId, Vec<Row>)> {
        let fresh = gix_hash::hasher(gix_hash::Kind::Sha1);
        let hasher = std::mem::replace(&mut self.hasher, fresh);
        let sum = hasher.try_finalize().map_err(io::Error::other)?;
        self.file.write_all(sum.as_slice())?;
        self.file.flush()?;
        Ok((sum, std::mem::take(&mut self.rows)))
    }
}

//! Judges a pack while it comes in (GIT-9).
//!
//! Every entry says how large it is before it is inflated, and every delta how large its result is. So a
//! bomb is refused at its header, before anything has been spent on it. What the scanner accepts it hands
//! on unchanged; whether deltas apply, and sums and names are right, is for the indexing to say.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::{Decompress, FlushDecompress, Status};

use super::limits::{IngestError, PackLimits, RATIO_FREE_BYTES, RATIO_MAX};

const BUFFER_BYTES: usize = 64 << 10;

/// Where the bytes of a pack go while it is scanned.
pub(super) trait Sink {
    /// Takes the next bytes. `seen` is what is known of the pack so far.
    fn take(&mut self, bytes: &[u8], seen: &Scanned) -> Result<(), IngestError>;
}

/// What a scan has learned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Scanned {
    /// Bytes of the pack.
    pub(super) bytes: u64,
    /// Objects in it.
    pub(super) objects: u32,
    /// Bytes of all entries, inflated.
    pub(super) inflated: u64,
    /// Bytes of all objects, deltas applied.
    pub(super) expanded: u64,
    /// Deltas that name their base, which may lie outside of the pack.
    pub(super) named_bases: u32,
}

/// Reads exactly one pack, to the end of the stream.
pub(super) fn scan(
    pack: &mut dyn Read,
    sink: &mut dyn Sink,
    limits: &PackLimits,
    cancel: &AtomicBool,
) -> Result<Scanned, IngestError> {
    let mut scanner = Scanner {
        input: Input {
            pack,
            sink,
            cancel,
            bytes_max: limits.bytes,
            buffer: vec![0; BUFFER_BYTES],
            start: 0,
            at: 0,
            end: 0,
            seen: Scanned::default(),
        },
        limits,
        inflate: Decompress::new(true),
        scratch: vec![0; BUFFER_BYTES],
    };
    scanner.run()
}

struct Scanner<'a> {
    input: Input<'a>,
    limits: &'a PackLimits,
    inflate: Decompress,
    scratch: Vec<u8>,
}

impl Scanner<'_> {
    fn run(&mut self) -> Result<Scanned, IngestError> {
        let objects = self.header()?;
        for _ in 0..objects {
            self.entry()?;
        }
        self.trailer()?;
        Ok(self.input.seen)
    }

    fn header(&mut self) -> Result<u32, IngestError> {
        let mut word = || -> Result<[u8; 4], IngestError> {
            let mut word = [0; 4];
            for byte in &mut word {
                *byte = self.input.byte()?;
            }
            Ok(word)
        };
        if word()? != *b"PACK" {
            return malformed("it does not begin as a pack");
        }
        if !matches!(u32::from_be_bytes(word()?), 2 | 3) {
            return malformed("its version is unknown");
        }
        let objects = u32::from_be_bytes(word()?);
        let limit = self.limits.objects;
        if objects > limit {
            return Err(IngestError::TooManyObjects { objects, limit });
        }
        self.input.seen.objects = objects;
        Ok(objects)
    }

    fn entry(&mut self) -> Result<(), IngestError> {
        let first = self.input.byte()?;
        let size = self.entry_size(first)?;
        let is_delta = match (first >> 4) & 7 {
            1..=4 => false,
            6 => {
                self.skip_distance()?;
                true
            }
            7 => {
                for _ in 0..20 {
                    self.input.byte()?;
                }
                self.input.seen.named_bases += 1;
                true
            }
            _ => return malformed("it has an object of unknown kind"),
        };
        self.check_object_size(size)?;
        let seen = &mut self.input.seen;
        seen.inflated = seen.inflated.saturating_add(size);
        let limit = self.limits.inflated_bytes;
        if seen.inflated > limit {
            return Err(IngestError::InflatedTooLarge { limit });
        }
        let head = self.inflate_entry(size)?;
        let result = if is_delta {
            delta_result_size(&head).ok_or_else(|| broken("a delta does not parse"))?
        } else {
            size
        };
        self.check_object_size(result)?;
        self.check_ratio(result)
    }

    fn check_object_size(&self, bytes: u64) -> Result<(), IngestError> {
        let limit = self.limits.object_bytes;
        if bytes > limit {
            return Err(IngestError::ObjectTooLarge { bytes, limit });
        }
        Ok(())
    }

    fn check_ratio(&mut self, object_bytes: u64) -> Result<(), IngestError> {
        let position = self.input.position();
        let expanded = self.input.seen.expanded.saturating_add(object_bytes);
        self.input.seen.expanded = expanded;
        if expanded > RATIO_FREE_BYTES && expanded / RATIO_MAX > position {
            return Err(IngestError::TooDense { limit: RATIO_MAX });
        }
        Ok(())
    }

    fn entry_size(&mut self, first: u8) -> Result<u64, IngestError> {
        let mut size = u64::from(first & 15);
        let mut shift = 4;
        let mut byte = first;
        while byte & 0x80 != 0 {
            byte = self.input.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift > 57 || (part << shift) >> shift != part {
                return malformed("an object has an impossible size");
            }
            size |= part << shift;
            shift += 7;
        }
        Ok(size)
    }

    fn skip_distance(&mut self) -> Result<(), IngestError> {
        for _ in 0..10 {
            if self.input.byte()? & 0x80 == 0 {
                return Ok(());
            }
        }
        malformed("a delta has an impossible base")
    }

    /// Inflates one entry to nowhere; it must come to exactly `size` bytes. Returns its first few.
    fn inflate_entry(&mut self, size: u64) -> Result<[u8; 20], IngestError> {
        const BROKEN: &str = "an object does not inflate to the size it names";
        let mut head = [0; 20];
        self.inflate.reset(true);
        loop {
            if self.input.is_empty() {
                self.input.fill()?;
            }
            let (in_before, out_before) = (self.inflate.total_in(), self.inflate.total_out());
            let status = self
                .inflate
                .decompress(
                    self.input.window(),
                    &mut self.scratch,
                    FlushDecompress::None,
                )
                .map_err(|_| broken(BROKEN))?;
            let consumed = narrow(self.inflate.total_in() - in_before);
            let produced = narrow(self.inflate.total_out() - out_before);
            self.input.advance(consumed);
            if let Some(rest) = head.get_mut(narrow(out_before)..) {
                let length = rest.len().min(produced);
                rest[..length].copy_from_slice(&self.scratch[..length]);
            }
            if self.inflate.total_out() > size {
                return malformed(BROKEN);
            }
            match status {
                Status::StreamEnd if self.inflate.total_out() == size => return Ok(head),
                Status::StreamEnd => return malformed(BROKEN),
                Status::Ok | Status::BufError if consumed == 0 && produced == 0 => {
                    if !self.input.is_empty() {
                        return malformed(BROKEN);
                    }
                }
                Status::Ok | Status::BufError => {}
            }
        }
    }

    /// The sum at the end. Whoever indexes the pack compares it; here it is only passed over.
    fn trailer(&mut self) -> Result<(), IngestError> {
        for _ in 0..20 {
            self.input.byte()?;
        }
        self.input.flush()?;
        if !self.input.is_empty() || self.input.read_more()? > 0 {
            return Err(IngestError::TrailingGarbage);
        }
        Ok(())
    }
}

/// The stream, with the bytes between `start` and `at` looked at but not handed on yet.
struct Input<'a> {
    pack: &'a mut dyn Read,
    sink: &'a mut dyn Sink,
    cancel: &'a AtomicBool,
    bytes_max: u64,
    buffer: Vec<u8>,
    start: usize,
    at: usize,
    end: usize,
    /// `bytes` counts what was handed on.
    seen: Scanned,
}

impl Input<'_> {
    fn is_empty(&self) -> bool {
        self.at == self.end
    }

    fn window(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    fn position(&self) -> u64 {
        self.seen.bytes + (self.at - self.start) as u64
    }

    fn byte(&mut self) -> Result<u8, IngestError> {
        if self.is_empty() {
            self.fill()?;
        }
        let byte = self.buffer[self.at];
        self.at += 1;
        Ok(byte)
    }

    /// Hands on what was looked at, and reads more. Only called when everything was looked at.
    fn fill(&mut self) -> Result<(), IngestError> {
        self.flush()?;
        if self.read_more()? == 0 {
            return Err(IngestError::Truncated);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), IngestError> {
        let bytes = &self.buffer[self.start..self.at];
        self.seen.bytes += bytes.len() as u64;
        if self.seen.bytes > self.bytes_max {
            let limit = self.bytes_max;
            return Err(IngestError::TooLarge { limit });
        }
        if !bytes.is_empty() {
            self.sink.take(bytes, &self.seen)?;
        }
        self.start = self.at;
        Ok(())
    }

    fn read_more(&mut self) -> Result<usize, IngestError> {
        loop {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(IngestError::Interrupted);
            }
            match self.pack.read(&mut self.buffer) {
                Ok(read) => {
                    (self.start, self.at, self.end) = (0, 0, read);
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(IngestError::Truncated);
                }
                Err(error) => return Err(IngestError::Read(error)),
            }
        }
    }
}

/// The second number at the beginning of a delta; the first is the size of its base.
fn delta_result_size(head: &[u8]) -> Option<u64> {
    let mut bytes = head.iter();
    let mut number = || {
        let mut value = 0_u64;
        for shift in (0..63).step_by(7) {
            let byte = bytes.next()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    };
    number()?;
    number()
}

fn malformed<T>(problem: &str) -> Result<T, IngestError> {
    Err(broken(problem))
}

fn broken(problem: &str) -> IngestError {
    IngestError::Malformed(problem.to_owned())
}

/// A count of bytes in memory.
fn narrow(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;

//! Reading packets from a stream.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::{DecodeError, Header, Packet, header};

/// Reads packets and nothing behind them.
#[derive(Debug)]
pub struct Reader<R> {
    inner: R,
    /// The latest packet as it came, length digits included.
    raw: Vec<u8>,
    data_max: usize,
}

/// Why no packet could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes are no packets, or end inside of one.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The packet is longer than this reader takes.
    #[error("a line is longer than {max} bytes")]
    TooLong {
        /// The most bytes of data in one packet.
        max: usize,
    },
    /// The stream failed.
    #[error("the request body could not be read")]
    Io(#[from] io::Error),
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// Reads packets of at most `data_max` bytes of data from `inner`.
    pub const fn new(inner: R, data_max: usize) -> Self {
        Self {
            inner,
            raw: Vec::new(),
            data_max,
        }
    }

    /// The next packet; `None` where the stream ends between two.
    pub async fn next(&mut self) -> Result<Option<Packet<'_>>, ReadError> {
        let mut digits = [0; 4];
        self.raw.clear();
        if !fill(&mut self.inner, &mut digits).await? {
            return Ok(None);
        }
        self.raw.extend_from_slice(&digits);
        let length = match header(digits)? {
            Header::Flush => return Ok(Some(Packet::Flush)),
            Header::Delimiter => return Ok(Some(Packet::Delimiter)),
            Header::ResponseEnd => return Ok(Some(Packet::ResponseEnd)),
            Header::Data(length) if length > self.data_max => {
                return Err(ReadError::TooLong { max: self.data_max });
            }
            Header::Data(length) => length,
        };
        self.raw.resize(4 + length, 0);
        if length > 0 && !fill(&mut self.inner, &mut self.raw[4..]).await? {
            return Err(DecodeError::Truncated.into());
        }
        Ok(Some(Packet::Data(&self.raw[4..])))
    }

    /// The latest packet exactly as it came, for passing it on.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The stream, at the first byte behind the latest packet.
    pub fn into_inner(self) -> R {
        self.inner
    }
}

/// Fills `buffer`, or says `false` if the stream ends before its first byte.
async fn fill<R: AsyncRead + Unpin>(inner: &mut R, buffer: &mut [u8]) -> Result<bool, ReadError> {
    let mut filled = 0;
    while filled < buffer.len() {
        match inner.read(&mut buffer[filled..]).await? {
            0 if filled == 0 => return Ok(false),
            0 => return Err(DecodeError::Truncated.into()),
            count => filled += count,
        }
    }
    Ok(true)
}

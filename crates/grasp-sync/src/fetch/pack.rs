//! A pack as it comes in: out of the side band, never whole.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use grasp_git::pktline::{Band, Header, header};
use grasp_git::scratch;
use tokio::io::{AsyncRead, ReadBuf};

use super::FetchError;
use super::http::Body;

/// Words, and packets without anything, that a host may send beside a pack (HUNT-9).
const WORDS_BYTES_MAX: u64 = 4 << 20;
/// Of a host's last words so much is read.
const FATAL_BYTES_MAX: usize = 1_024;

/// The bytes of a pack. What it fails with is a [`FetchError`] inside; dropping it ends the transfer.
#[derive(Debug)]
pub struct PackStream(Source);

#[derive(Debug)]
enum Source {
    Peer(SideBand<Body>),
    Git(scratch::Pack),
}

impl PackStream {
    pub(super) fn of_peer(body: Body) -> Self {
        Self(Source::Peer(SideBand::new(body)))
    }

    pub(super) fn of_git(pack: scratch::Pack) -> Self {
        Self(Source::Git(pack))
    }
}

impl AsyncRead for PackStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Source::Peer(stream) => Pin::new(stream).poll_read(context, buffer),
            Source::Git(pack) => Pin::new(pack).poll_read(context, buffer),
        }
    }
}

/// Takes the data out of side-band packets.
#[derive(Debug)]
pub(super) struct SideBand<R> {
    inner: R,
    place: Place,
    words_left: u64,
}

/// Where in the stream of packets the next byte stands.
#[derive(Debug)]
enum Place {
    /// Behind so many of the digits of a length.
    Digits([u8; 4], usize),
    /// Before the number of a band; so many bytes are left of the packet, the number included.
    Band(usize),
    /// In data.
    Data(usize),
    /// In words that are dropped.
    Words(usize),
    /// In the last words, those that came so far.
    Fatal(usize, Vec<u8>),
    /// Behind the flush packet.
    End,
}

impl<R> SideBand<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            place: Place::Digits([0; 4], 0),
            words_left: WORDS_BYTES_MAX,
        }
    }

    /// What a packet costs that brings no data, its length digits included.
    fn spend(&mut self, bytes: usize) -> Result<(), FetchError> {
        let left = self.words_left.checked_sub(bytes as u64 + 4);
        self.words_left = left.ok_or(FetchError::TooMuch {
            what: "words beside a pack",
            limit: WORDS_BYTES_MAX,
        })?;
        Ok(())
    }

    /// A length was read.
    fn packet(&mut self, digits: [u8; 4]) -> Result<Place, FetchError> {
        match header(digits) {
            Ok(Header::Flush) => Ok(Place::End),
            Ok(Header::Data(0)) => {
                self.spend(0)?;
                Ok(Place::Digits([0; 4], 0))
            }
            Ok(Header::Data(length)) => Ok(Place::Band(length)),
            Ok(Header::Delimiter | Header::ResponseEnd) | Err(_) => {
                Err(FetchError::NotGit("its pack is not made of packets"))
            }
        }
    }

    /// The number of a band was read; `left` bytes of its packet follow.
    fn band(&mut self, number: u8, left: usize) -> Result<Place, FetchError> {
        match number {
            band if band == Band::Data as u8 && left > 0 => Ok(Place::Data(left)),
            band if band == Band::Data as u8 || band == Band::Progress as u8 => {
                self.spend(left)?;
                Ok(Place::Words(left))
            }
            band if band == Band::Fatal as u8 => Ok(Place::Fatal(left, Vec::new())),
            _ => Err(FetchError::NotGit("its pack comes on a band that is none")),
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for SideBand<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match &mut this.place {
                Place::End => return Poll::Ready(Ok(())),
                Place::Digits(digits, filled) => {
                    let rest = &mut digits[*filled..];
                    *filled += ready!(poll_some(&mut this.inner, context, rest))?;
                    if *filled == digits.len() {
                        let digits = *digits;
                        this.place = this.packet(digits)?;
                    }
                }
                Place::Band(left) => {
                    let left = *left - 1;
                    let mut number = [0];
                    ready!(poll_some(&mut this.inner, context, &mut number))?;
                    this.place = this.band(number[0], left)?;
                }
                Place::Data(0) | Place::Words(0) => this.place = Place::Digits([0; 4], 0),
                Place::Fatal(0, words) => {
                    return Poll::Ready(Err(FetchError::remote(words).into()));
                }
                Place::Data(left) => {
                    let room = buffer.initialize_unfilled_to((*left).min(buffer.remaining()));
                    if room.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                    let count = ready!(poll_some(&mut this.inner, context, room))?;
                    buffer.advance(count);
                    *left -= count;
                    return Poll::Ready(Ok(()));
                }
                Place::Words(left) => {
                    let mut dropped = [0; 1_024];
                    let room = (*left).min(dropped.len());
                    *left -= ready!(poll_some(&mut this.inner, context, &mut dropped[..room]))?;
                }
                Place::Fatal(left, words) => {
                    let mut read = [0; 1_024];
                    let room = (*left).min(read.len());
                    let count = ready!(poll_some(&mut this.inner, context, &mut read[..room]))?;
                    let kept = count.min(FATAL_BYTES_MAX - words.len());
                    words.extend_from_slice(&read[..kept]);
                    *left -= count;
                }
            }
        }
    }
}

/// Reads at least one byte into `room`, which is not empty. A stream that ends here ends too early.
fn poll_some<R: AsyncRead + Unpin>(
    inner: &mut R,
    context: &mut Context<'_>,
    room: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut room = ReadBuf::new(room);
    ready!(Pin::new(inner).poll_read(context, &mut room))?;
    let count = room.filled().len();
    if count == 0 {
        return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
    }
    Poll::Ready(Ok(count))
}

#[cfg(test)]
mod tests {
    use grasp_git::pktline::{band, flush};
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(stream: &[u8]) -> Result<Vec<u8>, String> {
        let mut pack = Vec::new();
        let read = SideBand::new(stream).read_to_end(&mut pack).await;
        read.map(|_| pack)
            .map_err(|error| FetchError::of(error).to_string())
    }

    #[tokio::test]
    async fn data_is_taken_out_and_words_are_dropped() {
        let mut stream = Vec::new();
        band(&mut stream, Band::Progress, b"Counting objects: 3, done.");
        band(&mut stream, Band::Data, b"PA");
        stream.extend_from_slice(b"00040005\x01");
        band(&mut stream, Band::Data, b"CK");
        flush(&mut stream);
        stream.extend_from_slice(b"behind the end");
        assert_eq!(read(&stream).await, Ok(b"PACK".to_vec()));
    }

    #[tokio::test]
    async fn a_host_that_gives_up_says_why() {
        let mut stream = Vec::new();
        band(&mut stream, Band::Data, b"PACK");
        band(&mut stream, Band::Fatal, b"out of\nmemory\n");
        assert_eq!(
            read(&stream).await,
            Err("the host says: out of memory".to_owned())
        );
        band(&mut stream, Band::Fatal, &vec![b'x'; 60_000]);
        let long = read(&stream[stream.len() - 60_005..]).await.unwrap_err();
        assert!(long.len() < 400, "{long}");
    }

    #[tokio::test]
    async fn a_pack_that_breaks_off_is_no_pack() {
        let mut stream = Vec::new();
        band(&mut stream, Band::Data, b"PACK");
        flush(&mut stream);
        for end in 0..stream.len() {
            assert!(read(&stream[..end]).await.is_err(), "{end}");
        }
        for broken in [&b"0001"[..], b"0003", b"+00a\x01PACK", b"0006\x04x"] {
            assert!(read(broken).await.is_err(), "{broken:?}");
        }
    }

    /// HUNT-9: words beside a pack are bounded, and so are packets that bring nothing.
    #[tokio::test]
    async fn words_without_end_end_the_transfer() {
        let mut words = Vec::new();
        band(&mut words, Band::Progress, &vec![b'.'; 60_000]);
        for endless in [words, b"0004".to_vec(), b"0005\x01".to_vec()] {
            let often = 8_000_000 / endless.len();
            let error = read(&endless.repeat(often)).await.unwrap_err();
            assert!(error.contains("words beside a pack"), "{error}");
        }
    }

    proptest! {
        /// Whatever comes, nothing panics, and nothing comes out that did not come in.
        #[test]
        fn no_bytes_make_it_panic(stream in proptest::collection::vec(any::<u8>(), 0..300)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let read = runtime.block_on(read(&stream));
            prop_assert!(read.map_or(0, |pack| pack.len()) <= stream.len());
        }

        /// However packets are cut, their data comes out whole.
        #[test]
        fn packets_of_any_length_are_joined(
            parts in proptest::collection::vec((1_u8..=2, proptest::collection::vec(any::<u8>(), 1..40)), 0..20),
        ) {
            let (mut stream, mut data) = (Vec::new(), Vec::new());
            for (number, part) in parts {
                if number == 1 {
                    data.extend_from_slice(&part);
                }
                let kind = if number == 1 { Band::Data } else { Band::Progress };
                band(&mut stream, kind, &part);
            }
            flush(&mut stream);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            prop_assert_eq!(runtime.block_on(read(&stream)), Ok(data));
        }
    }
}

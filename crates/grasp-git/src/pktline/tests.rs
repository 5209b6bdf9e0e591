use proptest::prelude::*;

use super::*;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
}

/// Everything a reader returns, as owned values, and the error that ended it.
async fn read_all(input: &[u8]) -> (Vec<Option<Vec<u8>>>, Option<ReadError>) {
    let mut reader = Reader::new(input, DATA_MAX);
    let mut packets = Vec::new();
    loop {
        match reader.next().await {
            Ok(Some(packet)) => packets.push(match packet {
                Packet::Data(data) => Some(data.to_vec()),
                _ => None,
            }),
            Ok(None) => return (packets, None),
            Err(error) => return (packets, Some(error)),
        }
    }
}

#[test]
fn special_packets_are_told_from_empty_data() {
    let read: Vec<_> = Packets::new(b"0000000100020004")
        .map(|packet| packet.expect("valid"))
        .collect();
    assert_eq!(
        read,
        [
            Packet::Flush,
            Packet::Delimiter,
            Packet::ResponseEnd,
            Packet::Data(b"")
        ]
    );
}

#[test]
fn lengths_that_do_not_exist_are_refused() {
    for bad in [b"0003", b"fff1", b"ffff", b"00g0", b"+004", b"-001"] {
        assert_eq!(decode(bad), Err(DecodeError::Length(*bad)));
    }
    assert_eq!(decode(b"000"), Err(DecodeError::Truncated));
    assert_eq!(decode(b"0006a"), Err(DecodeError::Truncated));
}

#[test]
fn digits_of_either_case_are_read() {
    let mut input = b"000Aabcdef".to_vec();
    assert_eq!(decode(&input), Ok((Packet::Data(b"abcdef"), &b""[..])));
    input[3] = b'a';
    assert_eq!(decode(&input), Ok((Packet::Data(b"abcdef"), &b""[..])));
}

#[tokio::test]
async fn a_reader_leaves_what_follows_the_packets() {
    let mut reader = Reader::new(&b"0006a\n0000PACK"[..], 16);
    let first = reader.next().await.expect("reads").expect("a packet");
    assert_eq!(first.text(), Some(&b"a"[..]));
    assert_eq!(reader.raw(), b"0006a\n");
    assert_eq!(reader.next().await.expect("reads"), Some(Packet::Flush));
    assert_eq!(reader.into_inner(), b"PACK");
}

#[tokio::test]
async fn a_line_above_the_bound_is_refused_before_it_is_read() {
    let mut reader = Reader::new(&b"0016"[..], 16);
    assert!(matches!(
        reader.next().await,
        Err(ReadError::TooLong { max: 16 })
    ));
}

#[test]
fn the_longest_band_packet_is_the_one_git_takes() {
    let mut out = Vec::new();
    band(&mut out, Band::Data, &vec![7; BAND_DATA_MAX + 1]);
    assert_eq!(BAND_DATA_MAX, 65_515);
    assert_eq!(&out[..5], b"fff0\x01");
    assert_eq!(&out[PACKET_MAX..], b"0006\x01\x07");
}

#[test]
fn an_error_is_one_line_of_bounded_length() {
    let mut out = Vec::new();
    error(&mut out, "a\nb\0c");
    assert_eq!(out, b"000dERR a b c");
    out.clear();
    error(&mut out, "ü".repeat(5000));
    assert_eq!(Packets::new(&out).count(), 1);
    assert!(out.len() < 1100);
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(lines in prop::collection::vec(
        prop::option::of(prop::collection::vec(any::<u8>(), 0..200)), 0..20))
    {
        let mut out = Vec::new();
        for data in &lines {
            match data {
                Some(data) => packet(&mut out, |out| out.extend_from_slice(data)),
                None => flush(&mut out),
            }
        }
        let decoded: Vec<_> = Packets::new(&out)
            .map(|packet| match packet.expect("valid") {
                Packet::Data(data) => Some(data.to_vec()),
                _ => None,
            })
            .collect();
        prop_assert_eq!(&decoded, &lines);
        let (read, error) = runtime().block_on(read_all(&out));
        prop_assert!(error.is_none());
        prop_assert_eq!(&read, &lines);
    }

    #[test]
    fn slices_and_streams_agree_on_any_bytes(input in prop::collection::vec(
        prop_oneof![prop::sample::select(&b"00012a4f"[..]), any::<u8>()], 0..64))
    {
        let (read, error) = runtime().block_on(read_all(&input));
        let decoded: Vec<_> = Packets::new(&input).collect();
        prop_assert_eq!(decoded.iter().filter(|packet| packet.is_ok()).count(), read.len());
        prop_assert_eq!(decoded.last().is_some_and(Result::is_err), error.is_some());
    }
}

use grasp_core::push::Refusal;
use proptest::prelude::*;

use super::*;
use crate::pktline::{self, Packet, Packets};

const OLD: &str = "0000000000000000000000000000000000000000";
const NEW: &str = "1234567890123456789012345678901234567890";

/// A request body: text lines, then a flush, then `rest` as it is.
fn body(lines: &[&str], rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for text in lines {
        pktline::line(&mut out, text);
    }
    pktline::flush(&mut out);
    out.extend_from_slice(rest);
    out
}

fn read(mut body: &[u8]) -> (Result<Option<Request>, RequestError>, Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let request = runtime.block_on(read_request(&mut body, 3));
    (request, body.to_vec())
}

fn fault(lines: &[&str]) -> String {
    let (request, _) = read(&body(lines, b""));
    request.expect_err("refused").to_string()
}

/// PUSH-1
#[test]
fn commands_are_read_up_to_the_pack() {
    let (request, rest) = read(&body(
        &[
            &format!("{OLD} {NEW} refs/heads/main\0 report-status-v2 side-band-64k quiet agent=x"),
            &format!("{NEW} {OLD} refs/tags/a b"),
        ],
        b"PACK....",
    ));
    let request = request.expect("valid").expect("commands");
    assert_eq!(rest, b"PACK....");
    assert_eq!(request.commands[0].name, "refs/heads/main");
    assert_eq!(request.commands[0].new.to_string(), NEW);
    assert_eq!(request.commands[1].name, "refs/tags/a b");
    assert!(request.commands[1].new.is_zero());
    assert!(request.brings_pack());
    assert!(request.capabilities.reports() && request.capabilities.side_band);
    assert!(request.capabilities.quiet && !request.capabilities.atomic);
}

/// cases 6
#[test]
fn push_options_stand_between_commands_and_pack() {
    let mut input = body(
        &[&format!("{OLD} {NEW} refs/heads/main\0push-options atomic")],
        b"",
    );
    input.extend(body(&["secret-scanning.skip"], b"PACK"));
    let (request, rest) = read(&input);
    let request = request.expect("valid").expect("commands");
    assert_eq!(request.push_options, ["secret-scanning.skip"]);
    assert!(request.capabilities.atomic);
    assert_eq!(rest, b"PACK");
}

/// HTTP-6
#[test]
fn a_bare_flush_and_an_empty_body_ask_for_nothing() {
    assert!(read(b"0000").0.expect("valid").is_none());
    assert!(read(b"").0.expect("valid").is_none());
}

/// PUSH-17
#[test]
fn a_shallow_client_is_noticed_whichever_line_comes_first() {
    let (request, _) = read(&body(
        &[
            &format!("shallow {NEW}"),
            &format!("{OLD} {NEW} refs/heads/main\0atomic"),
        ],
        b"",
    ));
    let request = request.expect("valid").expect("commands");
    assert!(request.shallow && request.capabilities.atomic);
}

/// PUSH-1, PUSH-17, GIT-9, cases 18
#[test]
fn what_cannot_be_judged_is_refused_in_words() {
    let main = format!("{OLD} {NEW} refs/heads/main");
    assert!(fault(&["push-cert\0"]).contains("signed pushes"));
    assert!(fault(&[&format!("{main}\0object-format=sha256")]).contains("sha256"));
    let long = format!("{0}{1} {0}{1} refs/heads/main", "0".repeat(24), NEW);
    assert!(fault(&[&long]).contains("SHA-256"));
    assert!(fault(&[&main, &main]).contains("named twice"));
    let many: Vec<_> = (0..4).map(|n| format!("{main}{n}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert!(fault(&many).contains("at most 3 commands"));
    for bad in [
        "hello",
        "shallow x",
        &format!("{OLD} {NEW}"),
        &format!("{OLD} {NEW} "),
        &format!("{OLD} {} refs/heads/main", "A".repeat(40)),
        &format!("{OLD} {NEW} refs/heads/{}", "x".repeat(1200)),
    ] {
        assert!(fault(&[bad]).contains("not a push command"), "{bad}");
    }
}

#[test]
fn a_refusal_knows_how_the_client_can_be_told() {
    let (request, _) = read(&body(
        &[&format!("{OLD} {NEW} refs/heads/a\0side-band-64k"), "x"],
        b"",
    ));
    assert!(request.expect_err("refused").capabilities.side_band);
}

/// cases 11
#[test]
fn a_body_that_breaks_off_is_no_request() {
    let whole = body(&[&format!("{OLD} {NEW} refs/heads/main\0atomic")], b"");
    for end in 1..whole.len() {
        assert!(read(&whole[..end]).0.is_err(), "{end}");
    }
}

fn refusal() -> Refusal {
    Refusal {
        summary: "No state events in purgatory".to_owned(),
        advice: vec!["publish a state first".to_owned()],
    }
}

fn responder(list: &str) -> Responder {
    Responder::new(Capabilities::parse(list.as_bytes()))
}

/// The payload of all packets of `band`, and whether a flush closes the stream.
fn unband(bytes: &[u8], band: u8) -> (Vec<u8>, bool) {
    let packets: Vec<_> = Packets::new(bytes).map(|p| p.expect("framed")).collect();
    let payload = packets
        .iter()
        .filter_map(|packet| packet_of(*packet, band))
        .flatten()
        .copied()
        .collect();
    (payload, packets.last() == Some(&Packet::Flush))
}

fn packet_of(packet: Packet<'_>, band: u8) -> Option<&[u8]> {
    match packet {
        Packet::Data([first, payload @ ..]) if *first == band => Some(payload),
        _ => None,
    }
}

/// GIT-5
#[test]
fn a_client_with_side_band_alone_hears_the_refusal_on_band_three() {
    let out = responder("side-band-64k").refuse(&refusal(), []);
    assert_eq!(
        out,
        b"003c\x03ERR authorisation failed: No state events in purgatory\n"[..]
    );
}

/// GIT-5
#[test]
fn a_client_without_side_band_hears_the_refusal_as_an_error_packet() {
    for list in ["", "report-status"] {
        let out = responder(list).refuse(&refusal(), [("refs/heads/main", "no")]);
        assert_eq!(
            out,
            b"003aERR authorisation failed: No state events in purgatory"[..]
        );
    }
}

/// GIT-5
#[test]
fn a_client_that_takes_reports_hears_which_ref_was_refused() {
    let out = responder("report-status side-band-64k quiet").refuse(
        &refusal(),
        [("refs/heads/main", "no signed\nstate declares it")],
    );
    let (words, _) = unband(&out, 2);
    assert_eq!(
        words,
        b"authorisation failed: No state events in purgatory\npublish a state first\n"
    );
    let (report, flushed) = unband(&out, 1);
    let report: Vec<_> = Packets::new(&report).map(|p| p.expect("framed")).collect();
    assert_eq!(
        report,
        [
            Packet::Data(b"unpack ok\n"),
            Packet::Data(b"ng refs/heads/main no signed state declares it\n"),
            Packet::Flush
        ]
    );
    assert!(flushed);
}

/// GIT-7
#[test]
fn signs_of_life_follow_what_the_client_takes() {
    let step = "GRASP is finalizing the push";
    assert_eq!(
        responder("side-band-64k").keepalive(step),
        b"0022\x02GRASP is finalizing the push\n"[..]
    );
    assert_eq!(
        responder("side-band-64k quiet").keepalive(step),
        b"0005\x02"[..]
    );
    assert!(responder("report-status").keepalive(step).is_empty());
    assert!(responder("side-band-64k quiet").progress(step).is_empty());
    assert!(!responder("side-band-64k quiet").message(step).is_empty());
}

#[test]
fn a_long_report_is_cut_into_packets_that_git_takes() {
    let names: Vec<_> = (0..5_000)
        .map(|n| format!("refs/heads/branch-{n}"))
        .collect();
    let refs = names.iter().map(|name| (name.as_str(), Ok(())));
    let out = responder("report-status side-band-64k").report(Ok(()), refs);
    assert!(out.len() > 2 * 65_520);
    let (report, flushed) = unband(&out, 1);
    assert_eq!(Packets::new(&report).count(), 5_002);
    assert!(flushed);
}

#[test]
fn a_plain_report_has_no_bands() {
    let out = responder("report-status").report(
        Err("pack is broken"),
        [("refs/heads/a", Err("unpacker error"))],
    );
    let read: Vec<_> = Packets::new(&out)
        .map(|packet| packet.expect("framed"))
        .collect();
    assert_eq!(read[0], Packet::Data(b"unpack pack is broken\n"));
    assert_eq!(read[1], Packet::Data(b"ng refs/heads/a unpacker error\n"));
    assert_eq!(read[2], Packet::Flush);
    assert!(responder("").report(Ok(()), []).is_empty());
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(input in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&input);
    }

    /// The same with bytes that come further: framed lines made of what commands are made of.
    #[test]
    fn no_lines_make_the_parser_panic(
        lines in prop::collection::vec("[ 0a\u{0}]{0,50}(refs/|shallow |push-cert|\u{0}push-options)?.{0,9}", 0..6),
        rest in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let _ = read(&body(&lines, &rest));
    }

    /// Whatever the words, the client's git finds the frames it expects.
    #[test]
    fn a_report_is_framed_whatever_the_words(
        name in ".{0,80}", reason in ".{0,80}", long in 0..70_000_usize, list in
            prop::sample::select(&["report-status", "side-band-64k", "report-status-v2 side-band-64k", ""][..]),
    ) {
        let reason = reason + &"x".repeat(long);
        let out = responder(list).report(Err(&reason), [(name.as_str(), Err(reason.as_str()))]);
        prop_assert!(Packets::new(&out).all(|packet| packet.is_ok()));
        let out = responder(list).refuse(
            &Refusal { summary: reason.clone(), advice: vec![reason.clone()] },
            [(name.as_str(), reason.as_str())],
        );
        prop_assert!(Packets::new(&out).all(|packet| packet.is_ok()));
    }
}

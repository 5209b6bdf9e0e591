use super::*;
use crate::testing::{RawPack, entry};

impl Sink for Vec<u8> {
    fn take(&mut self, bytes: &[u8], _: &Scanned) -> Result<(), IngestError> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// One byte at a time: nothing may depend on where the stream is cut.
struct Dribble<'a>(&'a [u8]);

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let one = self.0.len().min(1);
        self.0.read(&mut buffer[..one])
    }
}

fn judge(pack: &[u8], limits: &PackLimits) -> Result<(Scanned, Vec<u8>), IngestError> {
    let never = AtomicBool::new(false);
    let mut kept = Vec::new();
    let whole = scan(&mut &*pack, &mut kept, limits, &never).map(|scanned| (scanned, kept));
    let mut kept = Vec::new();
    let dribbled =
        scan(&mut Dribble(pack), &mut kept, limits, &never).map(|scanned| (scanned, kept));
    match (&whole, &dribbled) {
        (Ok(whole), Ok(dribbled)) => assert_eq!(whole, dribbled),
        (Err(whole), Err(dribbled)) => assert_eq!(whole.to_string(), dribbled.to_string()),
        _ => panic!("{whole:?} is not {dribbled:?}"),
    }
    whole
}

fn two_blobs() -> Vec<u8> {
    RawPack::new()
        .object(entry::BLOB, b"hello")
        .object(entry::BLOB, &vec![7; 100_000])
        .finish()
}

#[test]
fn a_pack_is_handed_on_unchanged_and_counted() {
    let pack = two_blobs();
    let (scanned, kept) = judge(&pack, &PackLimits::default()).expect("sound");
    assert_eq!(kept, pack);
    assert_eq!(scanned.bytes, pack.len() as u64);
    assert_eq!((scanned.objects, scanned.expanded), (2, 100_005));
    assert_eq!(scanned.inflated, 100_005);
    let empty = RawPack::new().finish();
    assert_eq!(
        judge(&empty, &PackLimits::default())
            .expect("sound")
            .0
            .objects,
        0
    );
}

#[test]
fn a_pack_that_is_cut_anywhere_is_truncated() {
    let pack = RawPack::new().object(entry::BLOB, b"hello").finish();
    for length in 0..pack.len() {
        let refused = judge(&pack[..length], &PackLimits::default());
        assert!(
            matches!(refused, Err(IngestError::Truncated)),
            "{length}: {refused:?}"
        );
    }
}

#[test]
fn what_follows_a_pack_is_refused() {
    let mut pack = two_blobs();
    pack.push(0);
    let refused = judge(&pack, &PackLimits::default());
    assert!(matches!(refused, Err(IngestError::TrailingGarbage)));
}

/// GIT-9: each limit has its own words.
#[test]
fn limits_refuse_while_the_pack_streams() {
    let limits = PackLimits {
        bytes: 300,
        objects: 3,
        object_bytes: 1000,
        inflated_bytes: 1500,
    };
    let refused = |pack: RawPack| {
        judge(&pack.finish(), &limits)
            .expect_err("too much")
            .to_string()
    };

    let blob = |pack: RawPack, bytes| pack.object(entry::BLOB, &vec![0; bytes]);
    let many = (0..4).fold(RawPack::new(), |pack, _| blob(pack, 1));
    assert_eq!(refused(many), "the pack has 4 objects, the limit is 3");
    assert_eq!(
        refused(blob(RawPack::new(), 1001)),
        "the pack has an object of 1001 bytes, the limit is 1000"
    );
    assert_eq!(
        refused(blob(blob(RawPack::new(), 900), 900)),
        "the objects of the pack are larger than the limit of 1500 bytes together"
    );
    let noise: Vec<u8> = (0_u32..250)
        .flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_be_bytes())
        .collect();
    assert_eq!(
        refused(RawPack::new().object(entry::BLOB, &noise)),
        "the pack is larger than the limit of 300 bytes"
    );
}

/// Case 81: the header of a bomb is enough; what follows need not even be there.
#[test]
fn a_bomb_is_refused_at_its_header() {
    let mut pack = RawPack::new()
        .entry(entry::BLOB, 10 << 30, b"", b"")
        .finish();
    pack.truncate(12 + 6);
    let refused = judge(&pack, &PackLimits::default());
    assert!(matches!(refused, Err(IngestError::ObjectTooLarge { bytes, .. }) if bytes == 10 << 30));
}

#[test]
fn an_object_that_is_larger_or_smaller_than_it_says_is_refused() {
    for lie in [4, 6] {
        let pack = RawPack::new()
            .entry(entry::BLOB, lie, b"", b"hello")
            .finish();
        let refused = judge(&pack, &PackLimits::default());
        assert!(matches!(refused, Err(IngestError::Malformed(_))), "{lie}");
    }
}

/// A delta of a few bytes may stand for gigabytes.
#[test]
fn the_result_of_a_delta_counts_before_it_is_applied() {
    let delta = |result: u64| {
        let mut delta = vec![5];
        let mut rest = result;
        while rest > 0x7f {
            delta.push(u8::try_from(rest & 0x7f).expect("seven bits") | 0x80);
            rest >>= 7;
        }
        delta.push(u8::try_from(rest).expect("seven bits"));
        delta
    };
    let base = crate::testing::oid_of("blob", b"hello");
    let huge = RawPack::new().ref_delta(&base, &delta(1 << 40)).finish();
    let refused = judge(&huge, &PackLimits::default());
    assert!(matches!(refused, Err(IngestError::ObjectTooLarge { .. })));

    let many = (0..5).fold(RawPack::new(), |pack, _| {
        pack.ref_delta(&base, &delta(400 << 20))
    });
    let refused = judge(&many.finish(), &PackLimits::default());
    assert!(matches!(refused, Err(IngestError::TooDense { .. })));
}

#[test]
fn what_is_no_pack_is_refused() {
    let mut header = two_blobs();
    header[7] = 9;
    for bad in [
        &b"PACX\0\0\0\x02\0\0\0\0"[..],
        &header,
        b"GET / HTTP/1.1\r\n",
    ] {
        assert!(matches!(
            judge(bad, &PackLimits::default()),
            Err(IngestError::Malformed(_))
        ));
    }
    let kind = RawPack::new().object(5, b"x").finish();
    assert!(matches!(
        judge(&kind, &PackLimits::default()),
        Err(IngestError::Malformed(_))
    ));
    let mut size = b"PACK\0\0\0\x02\0\0\0\x01".to_vec();
    size.extend([0xff; 12]);
    assert!(matches!(
        judge(&size, &PackLimits::default()),
        Err(IngestError::Malformed(_))
    ));
}

#[test]
fn a_raised_flag_ends_the_scan() {
    let raised = AtomicBool::new(true);
    let refused = scan(
        &mut &*two_blobs(),
        &mut Vec::new(),
        &PackLimits::default(),
        &raised,
    );
    assert!(matches!(refused, Err(IngestError::Interrupted)));
}

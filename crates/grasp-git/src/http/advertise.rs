//! What `info/refs` answers.
//!
//! The same bytes that git's own server sends, less what we do not offer and with our name in
//! `agent`: clients decide by the capabilities listed here what they ask for later.

use bytes::Bytes;
use grasp_core::oid::Oid;
use grasp_core::refname::RefName;

use super::{AGENT, ProtocolVersion, Service};
use crate::pktline;
use crate::refs::{RefSnapshot, RefValue};

/// GIT-2: all that `git upload-pack` can do when any object may be asked for. `no-done` because each
/// HTTP request stands alone.
const UPLOAD_CAPABILITIES: &str = "multi_ack thin-pack side-band side-band-64k ofs-delta shallow \
    deepen-since deepen-not deepen-relative no-progress include-tag multi_ack_detailed \
    allow-tip-sha1-in-want allow-reachable-sha1-in-want no-done";

/// GIT-3. Signed pushes are not offered (PUSH-1).
const RECEIVE_CAPABILITIES: &str = "report-status report-status-v2 delete-refs side-band-64k quiet \
    atomic ofs-delta push-options";

/// GIT-1: what protocol v2 offers instead of refs.
const V2_CAPABILITIES: [&str; 4] = [
    "ls-refs=unborn",
    "fetch=shallow wait-for-done filter",
    "server-option",
    "object-format=sha1",
];

/// What a line takes, roughly: enough not to grow the answer many times.
const LINE_GUESS: usize = 80;

/// The whole body of `info/refs`, from the service line to the last flush, listing every ref. `haves`
/// are tips of other repositories that a push may build on (GIT-4a); only pushes see them. Depends
/// on nothing but its arguments: one answer serves all requests of the same snapshot.
pub fn advertise(
    service: Service,
    version: ProtocolVersion,
    refs: &RefSnapshot,
    haves: &[Oid],
) -> Bytes {
    advertise_some(service, version, refs, haves, |_| true)
}

/// As [`advertise`], but lists only refs that are `listed`, for a push that need not know every
/// proposal (GIT-4b).
pub fn advertise_some(
    service: Service,
    version: ProtocolVersion,
    refs: &RefSnapshot,
    haves: &[Oid],
    listed: impl Fn(&RefName) -> bool,
) -> Bytes {
    let mut out = Vec::with_capacity(LINE_GUESS * (8 + refs.refs.len()));
    pktline::line(&mut out, format_args!("# service={service}"));
    pktline::flush(&mut out);
    match (service, version) {
        (Service::UploadPack, ProtocolVersion::V2) => capabilities_v2(&mut out),
        // Pushing has no v2: git's server answers as it did before (GIT-1).
        (_, version) => {
            if version == ProtocolVersion::V1 {
                pktline::line(&mut out, "version 1");
            }
            Listing::new(&mut out, service, refs).write(refs, haves, listed);
        }
    }
    pktline::flush(&mut out);
    out.into()
}

fn capabilities_v2(out: &mut Vec<u8>) {
    pktline::line(out, "version 2");
    pktline::line(out, format_args!("agent={AGENT}"));
    for capability in V2_CAPABILITIES {
        pktline::line(out, capability);
    }
}

/// Lines of v0 and v1. The first one, whichever it is, carries the capabilities.
struct Listing<'a> {
    out: &'a mut Vec<u8>,
    capabilities: Option<String>,
    peels: bool,
}

impl<'a> Listing<'a> {
    fn new(out: &'a mut Vec<u8>, service: Service, refs: &RefSnapshot) -> Self {
        let capabilities = match service {
            Service::UploadPack => {
                let symref = match refs.head_value() {
                    Some(_) => format!(" symref=HEAD:{}", refs.head),
                    None => String::new(),
                };
                format!("{UPLOAD_CAPABILITIES}{symref} filter")
            }
            Service::ReceivePack => RECEIVE_CAPABILITIES.to_owned(),
        };
        Self {
            out,
            capabilities: Some(format!("{capabilities} object-format=sha1 agent={AGENT}")),
            peels: service == Service::UploadPack,
        }
    }

    fn write(mut self, refs: &RefSnapshot, haves: &[Oid], listed: impl Fn(&RefName) -> bool) {
        if let Some(value) = refs.head_value() {
            self.value("HEAD", value);
        }
        for (name, value) in refs.refs.iter().filter(|(name, _)| listed(name)) {
            self.value(name.as_str(), value);
        }
        if !self.peels {
            for have in haves {
                self.line(have, ".have", "");
            }
        }
        if self.capabilities.is_some() {
            self.line(&Oid::ZERO, "capabilities^{}", "");
        }
    }

    fn value(&mut self, name: &str, value: &RefValue) {
        self.line(&value.oid, name, "");
        if let Some(peeled) = value.peeled.filter(|_| self.peels) {
            self.line(&peeled, name, "^{}");
        }
    }

    fn line(&mut self, oid: &Oid, name: &str, suffix: &str) {
        let capabilities = self.capabilities.take();
        pktline::packet(self.out, |out| {
            pktline::hex(out, oid);
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(suffix.as_bytes());
            if let Some(capabilities) = capabilities {
                out.push(0);
                out.extend_from_slice(capabilities.as_bytes());
            }
            out.push(b'\n');
        });
    }
}

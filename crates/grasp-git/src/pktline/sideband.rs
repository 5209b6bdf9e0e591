//! The side band: data, progress and a last word on one stream.

use super::{DATA_MAX, packet};

/// The most payload of one side-band packet under `side-band-64k`: a packet less its band number.
pub const BAND_DATA_MAX: usize = DATA_MAX - 1;

/// What a side-band packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Band {
    /// What the client asked for: a pack, or the report of a push.
    Data = 1,
    /// Words for the person at the terminal, shown behind `remote: `.
    Progress = 2,
    /// Words after which the client gives up.
    Fatal = 3,
}

/// Appends `data` on `band`, in as many packets as it takes: none for no data.
pub fn band(out: &mut Vec<u8>, band: Band, data: &[u8]) {
    for chunk in data.chunks(BAND_DATA_MAX) {
        packet(out, |out| {
            out.push(band as u8);
            out.extend_from_slice(chunk);
        });
    }
}

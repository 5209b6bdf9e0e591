//! How a cursor is written down (SYNC-11). One that a later version wrote, or that is damaged, counts as none.

use grasp_sync::engine::{Cursor, SetDigest, Time};

/// The layout of the bytes.
const LAYOUT: u8 = 1;
/// Stands for a time that there is not.
const NEVER: u64 = 0;

pub(super) fn write(cursor: &Cursor) -> Vec<u8> {
    let daily_at = cursor.daily_at.map_or(NEVER, Time::as_millis);
    let mut bytes = vec![LAYOUT, u8::from(cursor.announcements_synced)];
    bytes.extend(cursor.filter_version.to_be_bytes());
    bytes.extend(cursor.confirmed.0.to_be_bytes());
    bytes.extend(cursor.last_connected.as_millis().to_be_bytes());
    bytes.extend(cursor.disconnected_at.as_millis().to_be_bytes());
    bytes.extend(daily_at.to_be_bytes());
    bytes
}

pub(super) fn read(bytes: &[u8]) -> Option<Cursor> {
    let (&[LAYOUT, announced], rest) = bytes.split_first_chunk()? else {
        return None;
    };
    let (version, rest) = rest.split_first_chunk()?;
    let (confirmed, rest) = rest.split_first_chunk()?;
    let (last_connected, rest) = rest.split_first_chunk()?;
    let (disconnected_at, rest) = rest.split_first_chunk()?;
    let (daily_at, rest) = rest.split_first_chunk()?;
    let time = |bytes: &[u8; 8]| Time::from_millis(u64::from_be_bytes(*bytes));
    let daily_at = Some(time(daily_at)).filter(|at| at.as_millis() != NEVER);
    rest.is_empty().then(|| Cursor {
        filter_version: u16::from_be_bytes(*version),
        confirmed: SetDigest(u128::from_be_bytes(*confirmed)),
        last_connected: time(last_connected),
        disconnected_at: time(disconnected_at),
        announcements_synced: announced == 1,
        daily_at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(daily_at: Option<Time>) -> Cursor {
        Cursor {
            filter_version: 7,
            confirmed: SetDigest(u128::MAX - 5),
            last_connected: Time::from_millis(1_800_000_000_123),
            disconnected_at: Time::from_millis(1_800_000_099_999),
            announcements_synced: true,
            daily_at,
        }
    }

    /// SYNC-11
    #[test]
    fn what_is_written_is_read() {
        for cursor in [cursor(None), cursor(Some(Time::from_secs(2_000_000_000)))] {
            assert_eq!(read(&write(&cursor)), Some(cursor));
        }
    }

    #[test]
    fn what_somebody_else_wrote_is_none() {
        let bytes = write(&cursor(None));
        let mut later = bytes.clone();
        later[0] = 2;
        let longer = [bytes.as_slice(), &[0]].concat();
        for bad in [&[][..], &bytes[..20], &later, &longer] {
            assert_eq!(read(bad), None);
        }
    }
}

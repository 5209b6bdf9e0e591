//! Writing packets into a buffer.

use std::fmt::{self, Write as _};

use grasp_core::oid::Oid;

use super::DATA_MAX;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends a flush packet.
pub fn flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

/// Appends a delimiter packet.
pub fn delimiter(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0001");
}

/// Appends one packet whose data `write` appends. What is longer than [`DATA_MAX`] is cut: no
/// caller writes more, but a frame that lies about its length would break all that follow.
pub fn packet(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(b"0000");
    write(out);
    out.truncate(start + 4 + DATA_MAX);
    let length = out.len() - start;
    for (place, shift) in [12, 8, 4, 0].into_iter().enumerate() {
        out[start + place] = DIGITS[(length >> shift) & 0xf];
    }
}

/// Appends a text line, closed by the newline that git expects.
pub fn line(out: &mut Vec<u8>, text: impl fmt::Display) {
    packet(out, |out| {
        put(out, text);
        out.push(b'\n');
    });
}

/// Appends `ERR <message>`, which a git client shows to its user as the remote's error. Newlines
/// and control characters of the message become blanks, and it is kept to a readable length.
pub fn error(out: &mut Vec<u8>, message: impl fmt::Display) {
    let mut text = message.to_string().replace(char::is_control, " ");
    text.truncate(text.floor_char_boundary(ERROR_MAX));
    packet(out, |out| put(out, format_args!("ERR {text}")));
}

/// The longest message of an `ERR` packet: git cuts what it prints at about this length.
const ERROR_MAX: usize = 1000;

/// Appends the 40 digits of `oid`. Listings are made of these, hence no formatting machinery.
pub fn hex(out: &mut Vec<u8>, oid: &Oid) {
    let mut digits = [0; 40];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(oid.as_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 0xf)];
    }
    out.extend_from_slice(&digits);
}

fn put(out: &mut Vec<u8>, text: impl fmt::Display) {
    struct Into<'a>(&'a mut Vec<u8>);
    impl fmt::Write for Into<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    // A `Display` that reports an error has written what it could; there is nobody to tell.
    let _ = write!(Into(out), "{text}");
}

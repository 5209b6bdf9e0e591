//! Request targets that are no URI, such as `/<script>` (cases.md 85).
//!
//! The HTTP library answers them with a bare 400, which no browser may read (G1-19) and no person understands.
//! So what cannot stand in a URI is escaped on its way in, as browsers would have done, and the request is
//! marked: its answer is a page that says "not found". *Invariant:* a marked request is never routed, since
//! whoever wrote it may have meant another reader than us (RFC 9112, 3.2).

/// The target of this request was no URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoUri;

/// The longest method that is looked at: `OPTIONS` has seven letters.
const METHOD_MAX: usize = 16;

/// How far a request line has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Line {
    /// In its method, after so many letters.
    Method(usize),
    /// Before the first character of its target.
    Begin,
    /// In its target.
    Target,
    /// Beyond, or it is none: what a connection brings after an answer may be the rest of a body.
    #[default]
    Over,
}

impl Line {
    /// A head begins with the next byte.
    pub(super) const HEAD: Self = Self::Method(0);

    /// Looks at the next bytes of a head. `None` if they may pass as they are.
    pub(super) fn escape(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut escaped: Option<Vec<u8>> = None;
        for (at, byte) in bytes.iter().enumerate() {
            if *self == Self::Over {
                if let Some(escaped) = &mut escaped {
                    escaped.extend_from_slice(&bytes[at..]);
                }
                break;
            }
            if self.takes(*byte) {
                if let Some(escaped) = &mut escaped {
                    escaped.push(*byte);
                }
            } else {
                let escaped = escaped.get_or_insert_with(|| bytes[..at].to_vec());
                escaped.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
        }
        escaped
    }

    /// Moves on by one byte; `false` if it cannot stand where it is.
    fn takes(&mut self, byte: u8) -> bool {
        *self = match (*self, byte) {
            // An empty line before a request is allowed.
            (Self::Method(0), b'\r' | b'\n') => Self::Method(0),
            (Self::Method(letters), b'A'..=b'Z') if letters < METHOD_MAX => {
                Self::Method(letters + 1)
            }
            (Self::Method(1..), b' ') => Self::Begin,
            (Self::Begin, b'/') => Self::Target,
            (Self::Target, b' ' | b'\r' | b'\n') | (Self::Method(_) | Self::Begin, _) => Self::Over,
            (place, _) => place,
        };
        let is_foreign = matches!(byte, 0..=0x20 | 0x7f | b'<' | b'>' | b'`');
        *self != Self::Target || !is_foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a head that comes in two pieces, wherever it is cut.
    fn passed(head: &[u8]) -> Vec<Vec<u8>> {
        let pieces = (0..=head.len()).map(|at| head.split_at(at));
        pieces
            .map(|(first, second)| {
                let mut line = Line::HEAD;
                let mut out = Vec::new();
                for piece in [first, second] {
                    out.extend(line.escape(piece).unwrap_or_else(|| piece.to_vec()));
                }
                out
            })
            .collect()
    }

    #[test]
    fn what_cannot_stand_in_a_target_is_escaped_there_and_nowhere_else() {
        let head = b"\r\nGET /<b>`\x01\x7f?<x> HTTP/1.1\r\nX: <b>\r\n\r\n";
        let expected = b"\r\nGET /%3Cb%3E%60%01%7F?%3Cx%3E HTTP/1.1\r\nX: <b>\r\n\r\n";
        for passed in passed(head) {
            assert_eq!(passed, expected);
        }
    }

    #[test]
    fn a_target_that_is_a_uri_passes_untouched() {
        let mut line = Line::HEAD;
        let head = b"GET /npub1x/a%20b.git?x=\"y\" HTTP/1.1\r\nX: <b>\r\n\r\n";
        assert_eq!(line.escape(head), None);
        assert_eq!(line, Line::Over);
    }

    /// The rest of a body that was not read must keep its length.
    #[test]
    fn what_is_no_request_line_passes_untouched() {
        for bytes in [
            &b"PACK\0\0\0\x02 /<"[..],
            b"get / <>",
            b" /<>",
            b"GET <>",
            b"GET http://x/<>",
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZ /<>",
            b"\x16\x03\x01 /<",
        ] {
            for passed in passed(bytes) {
                assert_eq!(passed, bytes, "{}", bytes.escape_ascii());
            }
        }
    }
}

//! Heads that are no request: what the HTTP library answers to them by itself (G1-19, HTTP-1).
//!
//! It writes a status and closes, nobody is asked, and no browser may read that. So the headers that every
//! answer carries are added on its way out. *Invariant:* an answer of ours passes untouched: it carries them.

use bytes::Bytes;
use http::HeaderMap;

/// The library's answer is shorter.
const ANSWER_MAX: usize = 512;

/// The lines that every answer carries.
#[derive(Debug, Clone)]
pub(super) struct Lines(Bytes);

impl Lines {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut lines = Vec::new();
        for (name, value) in headers {
            lines.extend_from_slice(name.as_str().as_bytes());
            lines.extend_from_slice(b": ");
            lines.extend_from_slice(value.as_bytes());
            lines.extend_from_slice(b"\r\n");
        }
        Self(lines.into())
    }

    /// The library's own refusal of a head, with these lines. `None` for anything else.
    pub(super) fn dress(&self, bytes: &[u8]) -> Option<Bytes> {
        let refusal = bytes.len() <= ANSWER_MAX
            && bytes.starts_with(b"HTTP/1.1 4")
            && bytes.ends_with(b"\r\n\r\n")
            && contains(bytes, b"\r\ncontent-length: 0\r\n")
            && !contains(bytes, b"\r\naccess-control-");
        let end = bytes.len().checked_sub(2).filter(|_| refusal)?;
        Some([&bytes[..end], &self.0, b"\r\n"].concat().into())
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_library_s_own_refusal_is_dressed() {
        let mut headers = HeaderMap::new();
        headers.insert(
            "access-control-allow-origin",
            http::HeaderValue::from_static("*"),
        );
        let lines = Lines::of(&headers);
        let bare = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let dressed = lines.dress(bare.as_bytes()).expect("bare");
        let expected = format!(
            "{}access-control-allow-origin: *\r\n\r\n",
            bare.strip_suffix("\r\n").expect("ends so")
        );
        assert_eq!(dressed, expected);
        assert_eq!(lines.dress(&dressed), None, "ours");
        for other in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\n",
            &bare[..bare.len() - 2],
            "",
        ] {
            assert_eq!(lines.dress(other.as_bytes()), None, "{other}");
        }
    }
}

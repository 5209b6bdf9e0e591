//! Reading one request by hand.

use std::collections::BTreeMap;
use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

/// One request, read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// `GET` or `POST`.
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body, as sent.
    pub body: Vec<u8>,
}

impl Asked {
    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The path without its query.
    pub fn path(&self) -> &str {
        self.target
            .split_once('?')
            .map_or(&self.target, |(path, _)| path)
    }

    /// What follows the `?`.
    pub fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Asked> {
    let mut stream = BufReader::new(stream);
    let first = line(&mut stream).await?;
    let mut words = first.split(' ').map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let mut headers = BTreeMap::new();
    while let Some((name, value)) = line(&mut stream).await?.split_once(':') {
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let body = body(&mut stream, &headers).await?;
    Ok(Asked {
        method,
        target,
        headers,
        body,
    })
}

async fn body(
    stream: &mut (impl tokio::io::AsyncBufRead + Unpin),
    headers: &BTreeMap<String, String>,
) -> io::Result<Vec<u8>> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut body = Vec::new();
    if let Some(length) = headers.get("content-length") {
        body.resize(length.parse().map_err(|_| invalid())?, 0);
        stream.read_exact(&mut body).await?;
    } else if headers.contains_key("transfer-encoding") {
        loop {
            let digits = line(stream).await?;
            let size = usize::from_str_radix(digits.trim(), 16).map_err(|_| invalid())?;
            let start = body.len();
            body.resize(start + size, 0);
            stream.read_exact(&mut body[start..]).await?;
            line(stream).await?;
            if size == 0 {
                break;
            }
        }
    }
    Ok(body)
}

async fn line(stream: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut line = Vec::new();
    if stream.read_until(b'\n', &mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

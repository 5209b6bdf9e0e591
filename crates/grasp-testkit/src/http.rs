//! HTTP/1.1 by hand, so that a test decides every byte of the framing.

use std::collections::BTreeMap;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::wait::DEADLINE;

/// One answer, read to its end.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// Header names in lower case; of repeats the last.
    pub headers: BTreeMap<String, String>,
    /// The body, chunks joined.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A kept-alive connection.
#[derive(Debug)]
pub struct HttpConnection {
    stream: BufReader<TcpStream>,
    authority: String,
}

impl HttpConnection {
    /// Connects to `host:port`.
    pub async fn connect(authority: &str) -> Self {
        let connection = Self::try_connect(authority).await;
        connection.expect("the server accepts connections")
    }

    /// Connects to `host:port`; an error if nobody listens there now.
    pub async fn try_connect(authority: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(authority).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            authority: authority.to_owned(),
        })
    }

    /// Sends bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).await.expect("the connection is open");
    }

    /// Sends bytes as they are; an error if the server has hung up.
    pub async fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes).await?;
        stream.flush().await
    }

    /// Sends a request head. `Host` is added; framing headers are the caller's.
    pub async fn send_head(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) {
        let head = self.head(method, target, headers);
        self.send(head.as_bytes()).await;
    }

    fn head(&self, method: &str, target: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n", self.authority);
        for (name, value) in headers {
            head.push_str(&[name, ": ", value, "\r\n"].concat());
        }
        head + "\r\n"
    }

    /// Sends one chunk of a chunked body; an empty one ends it.
    pub async fn send_chunk(&mut self, bytes: &[u8]) {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        self.send(&chunk).await;
    }

    /// A request without a body.
    pub async fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> HttpResponse {
        self.send_head(method, target, headers).await;
        self.response(method).await
    }

    /// A request with a body of known length.
    pub async fn post(
        &mut self,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> HttpResponse {
        let length = body.len().to_string();
        let mut headers = headers.to_vec();
        headers.push(("Content-Length", &length));
        self.send_head("POST", target, &headers).await;
        // A server that has refused may hang up before it has read all: its answer counts.
        let _ = self.try_send(body).await;
        self.response("POST").await
    }

    /// One request with a body; an error if the server goes away meanwhile.
    pub async fn try_request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<HttpResponse> {
        let length = body.len().to_string();
        let mut headers = headers.to_vec();
        headers.push(("Content-Length", &length));
        let head = self.head(method, target, &headers);
        self.try_send(head.as_bytes()).await?;
        self.try_send(body).await?;
        self.read_response(method).await
    }

    /// Reads one answer, to a request of `method`. Interim answers (1xx) are returned as such.
    pub async fn response(&mut self, method: &str) -> HttpResponse {
        tokio::time::timeout(DEADLINE * 3, self.read_response(method))
            .await
            .expect("an answer in time")
            .expect("the server answers")
    }

    /// Reads an answer's status and headers alone: its body may depend on what is sent next.
    pub async fn response_head(&mut self) -> HttpResponse {
        tokio::time::timeout(DEADLINE * 3, self.read_head())
            .await
            .expect("an answer in time")
            .expect("the server answers")
    }

    /// Reads the rest of an answer.
    pub async fn response_body(&mut self, method: &str, head: HttpResponse) -> HttpResponse {
        tokio::time::timeout(DEADLINE * 3, self.read_rest(method, head))
            .await
            .expect("an answer in time")
            .expect("the server answers")
    }

    async fn read_response(&mut self, method: &str) -> std::io::Result<HttpResponse> {
        let head = self.read_head().await?;
        self.read_rest(method, head).await
    }

    async fn read_head(&mut self) -> std::io::Result<HttpResponse> {
        let status_line = self.line().await?;
        let status = status_line
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| invalid(&format!("no HTTP answer but {status_line:?}")))?;
        let mut headers = BTreeMap::new();
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        Ok(HttpResponse {
            status,
            headers,
            body: Vec::new(),
        })
    }

    async fn read_rest(
        &mut self,
        method: &str,
        mut head: HttpResponse,
    ) -> std::io::Result<HttpResponse> {
        let bodiless =
            method == "HEAD" || head.status / 100 == 1 || matches!(head.status, 204 | 304);
        if !bodiless {
            head.body = self.body(&head.headers).await?;
        }
        Ok(head)
    }

    async fn body(&mut self, headers: &BTreeMap<String, String>) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if headers
            .get("transfer-encoding")
            .is_some_and(|v| v.contains("chunked"))
        {
            loop {
                let size = self.line().await?;
                let digits = size.split(';').next().unwrap_or_default().trim();
                let size = usize::from_str_radix(digits, 16)
                    .map_err(|_| invalid(&format!("no chunk size but {digits:?}")))?;
                let start = body.len();
                body.resize(start + size, 0);
                self.stream.read_exact(&mut body[start..]).await?;
                self.line().await?;
                if size == 0 {
                    return Ok(body);
                }
            }
        }
        if let Some(length) = headers.get("content-length") {
            body.resize(length.parse().map_err(|_| invalid("no length"))?, 0);
            self.stream.read_exact(&mut body).await?;
        } else {
            self.stream.read_to_end(&mut body).await?;
        }
        Ok(body)
    }

    async fn line(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).await?;
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }
}

fn invalid(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what)
}

//! What a host answers.

use std::io;
use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{Asked, Behaviour, Shared};
use crate::pkt;

const ADVERTISEMENT: &str = "application/x-git-upload-pack-advertisement";
const RESULT: &str = "application/x-git-upload-pack-result";

pub(super) async fn answer(
    stream: &mut TcpStream,
    asked: &Asked,
    shared: &Shared,
) -> io::Result<()> {
    let mut behaviour = shared.behaviour.subscribe();
    let mut now = behaviour.borrow_and_update().clone();
    while now == Behaviour::Silent {
        behaviour.changed().await.map_err(io::Error::other)?;
        now = behaviour.borrow_and_update().clone();
    }
    match now {
        Behaviour::Dumb => file(stream, asked, shared).await,
        Behaviour::Status(code, headers) => status(stream, code, &headers).await,
        Behaviour::Raw(bytes) => stream.write_all(&bytes).await,
        Behaviour::EndlessPack if asked.method == "POST" => endless(stream, RESULT, pack()).await,
        Behaviour::EndlessProgress if asked.method == "POST" => {
            endless(stream, RESULT, progress()).await
        }
        Behaviour::EndlessRefs => endless_refs(stream, asked).await,
        faithful => backend(stream, asked, shared, &faithful).await,
    }
}

/// Runs git's own CGI program and passes on what it says, with the fault put in.
async fn backend(
    stream: &mut TcpStream,
    asked: &Asked,
    shared: &Shared,
    behaviour: &Behaviour,
) -> io::Result<()> {
    let home = shared.home.path();
    let mut command = shared.home.command(home, ["http-backend"]);
    command
        .env("GIT_PROJECT_ROOT", home.join("served"))
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", &asked.method)
        .env("PATH_INFO", asked.path())
        .env("QUERY_STRING", asked.query())
        .env("CONTENT_TYPE", asked.header("content-type"))
        .env("CONTENT_LENGTH", asked.body.len().to_string())
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stderr(Stdio::null());
    if *behaviour != Behaviour::VersionZero {
        command.env("GIT_PROTOCOL", asked.header("git-protocol"));
    }
    if !asked.header("content-encoding").is_empty() {
        command.env("HTTP_CONTENT_ENCODING", asked.header("content-encoding"));
    }
    let mut child = command.spawn()?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let feed = async move {
        // A git that has heard enough hangs up; what it says is the answer.
        let _ = stdin.write_all(&asked.body).await;
    };
    let pass = async {
        let (code, mut headers) = cgi_head(&mut stdout).await?;
        if *behaviour == Behaviour::WrongType {
            headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            headers.push(("Content-Type".to_owned(), "text/html".to_owned()));
        }
        headers.push(("Transfer-Encoding".to_owned(), "chunked".to_owned()));
        head(stream, code, &headers).await?;
        if *behaviour == Behaviour::CorruptPack {
            let mut whole = Vec::new();
            stdout.read_to_end(&mut whole).await?;
            corrupt(&mut whole);
            return body(stream, &mut whole.as_slice(), shared, behaviour).await;
        }
        body(stream, &mut stdout, shared, behaviour).await
    };
    let ((), passed) = tokio::join!(feed, pass);
    passed
}

async fn cgi_head(
    stdout: &mut BufReader<tokio::process::ChildStdout>,
) -> io::Result<(u16, Vec<(String, String)>)> {
    use tokio::io::AsyncBufReadExt as _;
    let (mut code, mut headers) = (200, Vec::new());
    loop {
        let mut line = String::new();
        stdout.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            return Ok((code, headers));
        };
        if name == "Status" {
            let digits = value.split(' ').next().unwrap_or_default();
            code = digits.parse().map_err(io::Error::other)?;
        } else {
            headers.push((name.to_owned(), value.to_owned()));
        }
    }
}

async fn body(
    stream: &mut TcpStream,
    from: &mut (impl AsyncRead + Unpin),
    shared: &Shared,
    behaviour: &Behaviour,
) -> io::Result<()> {
    let at_once = match behaviour {
        Behaviour::Slow { bytes, .. } => *bytes,
        _ => 64 * 1024,
    };
    let mut buffer = vec![0; at_once];
    let mut sent = 0;
    loop {
        let mut count = from.read(&mut buffer).await?;
        if count == 0 {
            return stream.write_all(b"0\r\n\r\n").await;
        }
        match behaviour {
            Behaviour::StallsAfter(most) | Behaviour::BreaksAfter(most) if sent + count > *most => {
                count = most - sent;
                chunk(stream, &buffer[..count]).await?;
                return stop(behaviour, shared).await;
            }
            Behaviour::Slow { pause, .. } => tokio::time::sleep(*pause).await,
            _ => {}
        }
        chunk(stream, &buffer[..count]).await?;
        sent += count;
    }
}

/// The connection ends when this returns.
async fn stop(behaviour: &Behaviour, shared: &Shared) -> io::Result<()> {
    if matches!(behaviour, Behaviour::StallsAfter(_)) {
        let mut current = shared.behaviour.subscribe();
        current.borrow_and_update();
        current.changed().await.map_err(io::Error::other)?;
    }
    Ok(())
}

/// Changes a byte of the pack that the packets carry on band 1: one of its first object, behind the head of the pack.
fn corrupt(answer: &mut [u8]) {
    const PLACE: usize = 16;
    let (mut at, mut seen) = (0, 0);
    while let Some(digits) = answer.get(at..at + 4) {
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        let length = usize::from_str_radix(digits, 16).unwrap_or_default().max(4);
        if answer.get(at + 4) == Some(&1) && length > 4 {
            let data = at + 5;
            if let Some(byte) = answer.get_mut(data + PLACE - seen)
                && seen + length - 5 > PLACE
            {
                *byte ^= 0xff;
                return;
            }
            seen += length - 5;
        }
        at += length;
    }
}

/// A file of the repository, or 404.
async fn file(stream: &mut TcpStream, asked: &Asked, shared: &Shared) -> io::Result<()> {
    let path = asked.path().trim_start_matches('/');
    let inside = !path.split('/').any(|part| part == "..") && asked.method == "GET";
    let content = inside
        .then(|| std::fs::read(shared.home.path().join("served").join(path)).ok())
        .flatten();
    let content = if path.ends_with("info/refs") {
        content.or_else(|| Some(Vec::new()))
    } else {
        content
    };
    let Some(content) = content else {
        return status(stream, 404, &[]).await;
    };
    let headers = [
        ("Content-Type".to_owned(), "text/plain".to_owned()),
        ("Content-Length".to_owned(), content.len().to_string()),
    ];
    head(stream, 200, &headers).await?;
    stream.write_all(&content).await
}

async fn status(stream: &mut TcpStream, code: u16, headers: &[(String, String)]) -> io::Result<()> {
    let length = ("Content-Length".to_owned(), "0".to_owned());
    let headers: Vec<_> = headers.iter().cloned().chain([length]).collect();
    head(stream, code, &headers).await
}

/// Names of refs without end: as an advertisement, and to `ls-refs`.
async fn endless_refs(stream: &mut TcpStream, asked: &Asked) -> io::Result<()> {
    let lines: Vec<u8> = (0..1_000)
        .flat_map(|n| pkt(format!("{n:040x} refs/heads/{n}\n")))
        .collect();
    if asked.method == "POST" {
        return endless(stream, RESULT, (Vec::new(), lines)).await;
    }
    let first = [
        pkt("# service=git-upload-pack\n"),
        b"0000".to_vec(),
        pkt(format!("{:040x} HEAD\0ofs-delta\n", 1)),
    ];
    endless(stream, ADVERTISEMENT, (first.concat(), lines)).await
}

/// A pack that says it has 4 million objects, and then the same small blob again and again.
fn pack() -> (Vec<u8>, Vec<u8>) {
    let start = [
        pkt("packfile\n"),
        pkt(b"\x01PACK\0\0\0\x02\0\x3d\x09\0".as_slice()),
    ];
    // A stored (not deflated) zlib stream of one byte, as a blob of size 1.
    let blob = b"\x31\x78\x01\x01\x01\x00\xfe\xffa\x00\x62\x00\x62";
    let many: Vec<u8> = std::iter::once(1).chain(blob.repeat(1_000)).collect();
    (start.concat(), pkt(many))
}

fn progress() -> (Vec<u8>, Vec<u8>) {
    let words = "\x02Counting objects: 1\r".repeat(100);
    (pkt("packfile\n"), pkt(words))
}

/// `first`, then `again` for as long as anybody listens.
async fn endless(
    stream: &mut TcpStream,
    kind: &str,
    (first, again): (Vec<u8>, Vec<u8>),
) -> io::Result<()> {
    let headers = [
        ("Content-Type".to_owned(), kind.to_owned()),
        ("Transfer-Encoding".to_owned(), "chunked".to_owned()),
    ];
    head(stream, 200, &headers).await?;
    if !first.is_empty() {
        chunk(stream, &first).await?;
    }
    loop {
        chunk(stream, &again).await?;
    }
}

async fn head(stream: &mut TcpStream, code: u16, headers: &[(String, String)]) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {code} .\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&[name, ": ", value, "\r\n"].concat());
    }
    stream.write_all((head + "\r\n").as_bytes()).await
}

/// An empty one would end the body.
async fn chunk(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let frame = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    stream.write_all(&frame).await
}

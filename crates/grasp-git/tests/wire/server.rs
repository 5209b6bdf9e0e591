//! The smallest HTTP server around the wire functions: enough for git, and no more.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_compression::tokio::bufread::GzipDecoder;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _, stream};
use grasp_core::push::Refusal;
use grasp_git::http::receive_pack::{self, Responder};
use grasp_git::http::{
    Fetches, ProtocolVersion, Service, UploadConfig, UploadRepo, advertise, upload_pack,
};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::HeaderValue;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio_util::io::StreamReader;
use tokio_util::task::AbortOnDropHandle;

use crate::repository::Repository;

type Parts = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// What is answered to a push.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pushes {
    /// Nothing is covered by a signed state.
    Refused,
    /// Accepted once the pack was read, after a while of silence.
    Accepted,
}

/// Serves one repository, whatever the path, until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    _accepting: AbortOnDropHandle<()>,
}

struct Shared {
    repository: Arc<Repository>,
    config: UploadConfig,
    pushes: Pushes,
}

impl Server {
    pub(crate) async fn of(repository: &Arc<Repository>) -> Self {
        Self::with(repository, Pushes::Refused).await
    }

    pub(crate) async fn with(repository: &Arc<Repository>, pushes: Pushes) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            repository: Arc::clone(repository),
            config: UploadConfig::new(Fetches::new(4, 16)),
            pushes,
        });
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                let connection =
                    http1::Builder::new().serve_connection(TokioIo::new(socket), service);
                // Ends with its client.
                drop(tokio::spawn(connection));
            }
        });
        Self {
            address,
            _accepting: AbortOnDropHandle::new(accepting),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/repo.git", self.address)
    }
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<StreamBody<FrameParts>>, Infallible> {
    let header = |name: &str| request.headers().get(name).map(HeaderValue::as_bytes);
    let version = ProtocolVersion::from_header(header("git-protocol"));
    let gzip = header("content-encoding") == Some(b"gzip");
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let parts: Option<Parts> = match path.rsplit('/').next() {
        Some("refs") => query
            .strip_prefix("service=")
            .and_then(Service::from_name)
            .map(|service| {
                whole(advertise(
                    service,
                    version,
                    &shared.repository.snapshot(),
                    &[],
                ))
            }),
        Some("git-upload-pack") => {
            let body = body(request, gzip);
            Some(fetch(&shared, version, body).await)
        }
        Some("git-receive-pack") => Some(push(shared.pushes, body(request, gzip))),
        _ => None,
    };
    let status = match parts {
        Some(_) => StatusCode::OK,
        None => StatusCode::NOT_FOUND,
    };
    let parts = parts.unwrap_or_else(|| whole(Bytes::new()));
    let mut response = Response::new(StreamBody::new(FrameParts(parts)));
    *response.status_mut() = status;
    let kind = match Service::from_name(query.strip_prefix("service=").unwrap_or_default()) {
        Some(service) => service.advertisement_type(),
        None if path.ends_with("git-upload-pack") => Service::UploadPack.result_type(),
        None => Service::ReceivePack.result_type(),
    };
    let kind = kind.parse().expect("a content type");
    response.headers_mut().insert("content-type", kind);
    Ok(response)
}

struct FrameParts(Parts);

impl Stream for FrameParts {
    type Item = io::Result<Frame<Bytes>>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx).map_ok(Frame::data)
    }
}

fn whole(bytes: Bytes) -> Parts {
    Box::pin(stream::iter([Ok(bytes)]))
}

type Body = Pin<Box<dyn AsyncRead + Send>>;

fn body(request: Request<Incoming>, gzip: bool) -> Body {
    let data = BodyStream::new(request.into_body().map_err(io::Error::other))
        .try_filter_map(|frame| async { Ok(frame.into_data().ok()) });
    let reader = StreamReader::new(Box::pin(data));
    if gzip {
        Box::pin(GzipDecoder::new(BufReader::new(reader)))
    } else {
        Box::pin(reader)
    }
}

async fn fetch(shared: &Shared, version: ProtocolVersion, body: Body) -> Parts {
    let repo = UploadRepo {
        path: shared.repository.path(),
        refs: Arc::new(shared.repository.snapshot()),
        lease: Arc::clone(&shared.repository),
    };
    let answer = upload_pack(repo, version, body, &shared.config).await;
    Box::pin(answer.expect("an answer"))
}

/// Reads a push to its end while it is answered.
fn push(pushes: Pushes, mut body: Body) -> Parts {
    let (parts, received) = tokio::sync::mpsc::channel(1);
    let handle = tokio::spawn(async move {
        let say = async |bytes: Bytes| parts.send(Ok(bytes)).await.expect("a listener");
        let request = match receive_pack::read_request(&mut body, 100).await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(error) => {
                let responder = Responder::new(error.capabilities.clone());
                return say(responder.fail(&error.to_string())).await;
            }
        };
        let responder = Responder::new(request.capabilities.clone());
        let names = request.commands.iter().map(|command| command.name.as_str());
        if matches!(pushes, Pushes::Refused) {
            let refusal = Refusal {
                summary: "No state events in purgatory".to_owned(),
                advice: vec!["Publish a state that declares what you push.".to_owned()],
            };
            let reasons = names.map(|name| (name, "no signed state declares it"));
            say(responder.refuse(&refusal, reasons)).await;
            tokio::io::copy(&mut body, &mut tokio::io::sink())
                .await
                .expect("the rest");
            return;
        }
        say(responder.progress("GRASP has read the commands")).await;
        let mut pack = Vec::new();
        body.read_to_end(&mut pack).await.expect("a pack");
        assert_eq!(request.brings_pack(), pack.starts_with(b"PACK"));
        for _ in 0..3 {
            say(responder.keepalive("GRASP is finalizing the push")).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        say(responder.report(Ok(()), names.map(|name| (name, Ok(()))))).await;
    });
    let received = stream::unfold(
        (received, AbortOnDropHandle::new(handle)),
        |mut state| async { state.0.recv().await.map(|part| (part, state)) },
    );
    Box::pin(received.filter(|part| {
        let some = part.as_ref().is_ok_and(|bytes: &Bytes| !bytes.is_empty());
        std::future::ready(some)
    }))
}

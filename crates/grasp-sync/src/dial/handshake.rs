//! From a stream to a WebSocket.

use http::HeaderValue;
use http::header::USER_AGENT;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite;
use tungstenite::Error;
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::WebSocketConfig;

use super::connect::Stream;
use super::{ConnectError, DialError, Socket};
use crate::outbound::Refusal;
use crate::relay_url::RelayUrl;

/// A longer message ends the connection. As much as this server's own relay takes.
pub const MESSAGE_BYTES_MAX: usize = 5 * 1_024 * 1_024;
/// Thousands of connections are mostly silent.
const READ_BUFFER: usize = 4 * 1_024;

/// Asks for a WebSocket. An answer that sends us elsewhere is a refusal (NET-3).
pub(super) async fn shake_hands(
    stream: Stream,
    relay: &RelayUrl,
    user_agent: &str,
) -> Result<Socket, DialError> {
    let forbidden = || ConnectError::Forbidden(Refusal::Malformed);
    let request = relay.as_str().into_client_request();
    let mut request = request.map_err(|_| forbidden())?;
    let user_agent = HeaderValue::from_str(user_agent).map_err(|_| forbidden())?;
    request.headers_mut().insert(USER_AGENT, user_agent);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    match client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(answer)) => Err(DialError::Status(answer.status().as_u16())),
        Err(Error::Io(error)) => Err(ConnectError::Unreachable(error).into()),
        Err(error) => Err(DialError::Handshake(Box::new(error))),
    }
}

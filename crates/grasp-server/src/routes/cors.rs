//! Headers that every response carries, whatever it says (G1-19, HTTP-1, HTTP-5).

use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Response};

const ALLOW: [(HeaderName, HeaderValue); 5] = [
    (
        header::ACCESS_CONTROL_ALLOW_ORIGIN,
        HeaderValue::from_static("*"),
    ),
    (
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, POST"),
    ),
    (
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static("Content-Type, Authorization, Git-Protocol"),
    ),
    (
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("WWW-Authenticate"),
    ),
    (
        header::ACCESS_CONTROL_MAX_AGE,
        HeaderValue::from_static("86400"),
    ),
];

/// Adds them.
pub(super) fn dress<B>(mut response: Response<B>) -> Response<B> {
    let headers: &mut HeaderMap = response.headers_mut();
    for (name, value) in ALLOW {
        headers.insert(name, value);
    }
    headers.insert(header::SERVER, HeaderValue::from_static("ngit-grasp"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

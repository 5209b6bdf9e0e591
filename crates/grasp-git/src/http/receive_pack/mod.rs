//! The spoken part of a push: what the client asks, and how it is told what became of it.
//!
//! [`read_request`] takes the commands off the body and leaves the pack; [`Responder`] frames every
//! later word as the client can take it.

mod capabilities;
mod request;
mod responder;

pub use capabilities::Capabilities;
pub use request::{Request, RequestError, RequestFault, read_request};
pub use responder::Responder;

#[cfg(test)]
mod tests;

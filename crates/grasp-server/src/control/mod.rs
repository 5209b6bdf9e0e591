//! What operators ask of a server, and the socket they ask it on (CLI-5).
//!
//! One [`Desk`] answers, whether a question comes over the socket of a running server or from a command that
//! opened the data itself because no server runs: so both tell the same. *Invariant:* whoever may not read the
//! data folder may not ask, and nothing that is asked changes refs but through reconciling.

mod check;
mod desk;
mod disk;
mod explain;
mod holding;
mod hunt;
mod message;
mod socket;
mod status;
mod sync;
mod text;

pub use desk::Desk;
pub(crate) use desk::{Listening, Place};
pub use message::{Command, Reply, Request, Scope, Unanswered};
pub use socket::{LINE_MAX, Socket, SocketPath};

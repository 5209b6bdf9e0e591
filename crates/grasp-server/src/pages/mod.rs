//! The HTML pages: pure functions from values to text.
//!
//! *Invariants:* every value is escaped on its way in (HTTP-5); no page has a script, a form, or anything
//! from another host; light and dark follow the reader's system. [`CONTENT_SECURITY_POLICY`] makes browsers
//! hold us to that.

mod html;
mod landing;
mod links;
mod not_found;
mod repository;
#[cfg(test)]
mod tests;

pub use html::Frame;
pub use landing::{Landing, landing};
pub use links::Links;
pub use not_found::{NotFound, not_found};
pub use repository::{RepositoryPage, RepositoryState, repository};

/// The header `Content-Security-Policy` of every page: our own style sheet, our own icon, nothing else.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; img-src 'self'; \
     style-src 'sha256-r2FfXXyBSBgoXxOwGkLRHEzb1UWMnUAXPzxpOWqRIAY='; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The body of `/icon.png`.
pub const ICON: &[u8] = include_bytes!("icon.png");

//! The page for what is not here.

use super::html::{Frame, Text, heading, page};

/// Longest path shown, in characters: the rest says nothing.
const PATH_SHOWN_MAX: usize = 200;

/// Nothing is at this address.
#[derive(Debug, Clone, Copy)]
pub struct NotFound<'a> {
    /// What all pages share.
    pub frame: Frame<'a>,
    /// The path that was asked for, as it came.
    pub path: &'a str,
    /// Whether it looks like a repository's address, which this server does not host.
    pub repository: bool,
}

/// Writes the page for status 404.
pub fn not_found(it: &NotFound<'_>) -> String {
    let mut shown: String = it.path.chars().take(PATH_SHOWN_MAX).collect();
    if shown.len() < it.path.len() {
        shown.push('…');
    }
    let explained = if it.repository {
        "<p>No repository with this address is hosted here. Its maintainers may have moved it: look for it on \
         <a href=\"https://gitworkshop.dev\">gitworkshop.dev</a>. If it is yours, announce it to this server \
         first.</p>\n"
    } else {
        "<p>There is no page at this address.</p>\n"
    };
    let body = format!(
        "{heading}<p><code>{path}</code></p>\n{explained}",
        heading = heading(&it.frame, "Not found", None),
        path = Text(&shown),
    );
    page(&it.frame, "Not found", &body)
}

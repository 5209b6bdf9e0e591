//! The frame of every page, and the one way a text gets into it.

use std::fmt;

/// The style sheet, inlined: a page is one request. [`super::CONTENT_SECURITY_POLICY`] names its hash, so no
/// other style runs.
pub(super) const STYLE: &str = include_str!("style.css");

/// A text as HTML shows it. Everything that is not a literal of ours goes through here (HTTP-5).
pub(super) struct Text<'a>(pub(super) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(['&', '<', '>', '"', '\'']) {
            let mut chars = part.chars();
            let escaped = match chars.next_back() {
                Some('&') => "&amp;",
                Some('<') => "&lt;",
                Some('>') => "&gt;",
                Some('"') => "&quot;",
                Some('\'') => "&#39;",
                _ => {
                    out.write_str(part)?;
                    continue;
                }
            };
            out.write_str(chars.as_str())?;
            out.write_str(escaped)?;
        }
        Ok(())
    }
}

/// A whole page: `title` is plain text, `body` is HTML.
pub(super) fn page(frame: &Frame<'_>, title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<link rel=\"icon\" href=\"{base}/icon.png\">\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         <footer>{name} runs ngit-grasp {version}, a \
         <a href=\"https://gitworkshop.dev\">GRASP</a> server.</footer>\n</body>\n</html>\n",
        title = Text(title),
        base = Text(frame.base_path),
        name = Text(frame.service_name),
        version = Text(frame.version),
    )
}

/// What all pages of one server share.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// The service's name, as in NIP-11.
    pub service_name: &'a str,
    /// Where everything is mounted: empty, or `/a/b` (NAME-6).
    pub base_path: &'a str,
    /// The version of this program.
    pub version: &'a str,
}

/// The heading of a page, with the icon beside it.
pub(super) fn heading(frame: &Frame<'_>, title: &str, subtitle: Option<&str>) -> String {
    let subtitle = subtitle.map_or_else(String::new, |text| {
        format!("<div class=\"soft\">{}</div>", Text(text))
    });
    format!(
        "<header><a href=\"{base}/\"><img src=\"{base}/icon.png\" alt=\"\" width=\"48\" height=\"48\"></a>\
         <div><h1>{title}</h1>{subtitle}</div></header>\n",
        base = Text(frame.base_path),
        title = Text(title),
    )
}

/// Lines to copy, one box each.
pub(super) fn command(line: &str) -> String {
    format!("<pre><code>{}</code></pre>\n", Text(line))
}

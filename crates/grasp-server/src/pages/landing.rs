//! What a person sees who opens the server's address in a browser.

use super::html::{Frame, Text, command, heading, page};

/// The landing page.
#[derive(Debug, Clone, Copy)]
pub struct Landing<'a> {
    /// What all pages share.
    pub frame: Frame<'a>,
    /// The service's description, as in NIP-11.
    pub description: &'a str,
    /// `https://host[/base]`.
    pub web_url: &'a str,
    /// `wss://host[/base]`.
    pub relay_url: &'a str,
    /// The relay owner's npub.
    pub owner_npub: &'a str,
    /// Repositories served; `None` where that is nobody's business (PRIV-5).
    pub repositories: Option<u64>,
    /// `supported_grasps` of NIP-11.
    pub grasps: &'a [&'a str],
    /// `repo_acceptance_criteria` of NIP-11.
    pub criteria: &'a str,
}

/// Writes the landing page.
pub fn landing(it: &Landing<'_>) -> String {
    let count = it.repositories.map_or_else(String::new, |count| {
        format!("<dt>Repositories</dt><dd>{count}</dd>\n")
    });
    let body = format!(
        "{heading}\
         <p>This is a Nostr relay and a git host in one. Maintainers announce a repository and sign what its \
         branches and tags are; whoever pushes, only what they signed is served. There are no accounts.</p>\n\
         <dl>\n<dt>Relay</dt><dd><code>{relay}</code></dd>\n{count}\
         <dt>Speaks</dt><dd>{grasps}</dd>\n<dt>Takes</dt><dd>{criteria}</dd>\n\
         <dt>Relay key</dt><dd><code>{owner}</code></dd>\n</dl>\n\
         <h2>Host a repository here</h2>\n\
         <p>With the <a href=\"https://gitworkshop.dev/ngit\">ngit</a> client, inside a git repository:</p>\n\
         {init}<p>That announces it, signs its state and pushes. From then on it is plain git:</p>\n{push}\
         <h2>Find one</h2>\n\
         <p><a href=\"https://gitworkshop.dev\">gitworkshop.dev</a> shows repositories, issues and pull requests \
         of servers like this one. A repository's own page is its clone address, opened in a browser.</p>\n",
        heading = heading(&it.frame, it.frame.service_name, Some(it.description)),
        relay = Text(it.relay_url),
        grasps = Text(&it.grasps.join(", ")),
        criteria = Text(it.criteria),
        owner = Text(it.owner_npub),
        init = command(&format!("ngit init --grasp-server {}", it.web_url)),
        push = command("git push"),
    );
    page(&it.frame, it.frame.service_name, &body)
}

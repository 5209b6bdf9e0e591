//! The page at a repository's clone address (G1-18).

use super::html::{Frame, Text, command, heading, page};

/// One hosted repository.
#[derive(Debug, Clone, Copy)]
pub struct RepositoryPage<'a> {
    /// What all pages share.
    pub frame: Frame<'a>,
    /// Its identifier.
    pub identifier: &'a str,
    /// The `name` of its announcement.
    pub name: Option<&'a str>,
    /// The `description` of its announcement.
    pub description: Option<&'a str>,
    /// Its owner's npub.
    pub owner_npub: &'a str,
    /// Others whose signed states count for it, as npubs.
    pub maintainer_npubs: &'a [String],
    /// For plain git.
    pub clone_url: &'a str,
    /// For git with the `ngit` client.
    pub nostr_url: &'a str,
    /// Where it can be browsed.
    pub workshop_url: &'a str,
    /// What is in it.
    pub state: RepositoryState<'a>,
}

/// What a repository shows at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepositoryState<'a> {
    /// Announced; its first push is still to come.
    Waiting,
    /// Branches and tags follow a signed state.
    Served {
        /// The branch that a clone checks out.
        head: Option<&'a str>,
        /// How many branches.
        branches: usize,
        /// How many tags.
        tags: usize,
        /// When its state was signed, in words.
        signed: &'a str,
    },
    /// REF-5: nobody who may decide about it has signed a state; it stays as it was.
    Frozen {
        /// How many branches.
        branches: usize,
        /// How many tags.
        tags: usize,
    },
}

/// Writes the page of a repository.
pub fn repository(it: &RepositoryPage<'_>) -> String {
    let title = it
        .name
        .filter(|name| !name.trim().is_empty())
        .unwrap_or(it.identifier);
    let maintainers = it.maintainer_npubs.iter().fold(String::new(), |all, npub| {
        format!(
            "{all}<dt>Maintainer</dt><dd><code>{}</code></dd>\n",
            Text(npub)
        )
    });
    let body = format!(
        "{heading}{description}\
         <p><a class=\"button\" href=\"{workshop}\">Browse on gitworkshop.dev</a></p>\n\
         <h2>Clone</h2>\n\
         <p>With the <a href=\"https://gitworkshop.dev/ngit\">ngit</a> client, which also checks the signed \
         state and brings issues and pull requests:</p>\n{nostr}<p>With plain git:</p>\n{https}\
         <h2>State</h2>\n{state}\
         <dl>\n<dt>Identifier</dt><dd><code>{identifier}</code></dd>\n\
         <dt>Owner</dt><dd><code>{owner}</code></dd>\n{maintainers}</dl>\n",
        heading = heading(&it.frame, title, None),
        description = it
            .description
            .map_or_else(String::new, |text| format!("<p>{}</p>\n", Text(text))),
        workshop = Text(it.workshop_url),
        nostr = command(&format!("git clone {}", it.nostr_url)),
        https = command(&format!("git clone {}", it.clone_url)),
        state = state(&it.state),
        identifier = Text(it.identifier),
        owner = Text(it.owner_npub),
    );
    page(
        &it.frame,
        &format!("{title} - {}", it.frame.service_name),
        &body,
    )
}

fn state(state: &RepositoryState<'_>) -> String {
    match state {
        RepositoryState::Waiting => {
            "<p class=\"note\">Announced. It is empty until its maintainers sign a state \
             and push what that names.</p>\n"
                .to_owned()
        }
        RepositoryState::Served {
            head,
            branches,
            tags,
            signed,
        } => {
            let head = head.map_or_else(String::new, |head| {
                format!(", <code>{}</code> is checked out", Text(head))
            });
            format!(
                "<p>{}, {}{head}. Signed {}.</p>\n",
                count(*branches, "branch", "branches"),
                count(*tags, "tag", "tags"),
                Text(signed),
            )
        }
        RepositoryState::Frozen { branches, tags } => format!(
            "<p class=\"note\">{}, {}, as they were last signed. At the moment no maintainer's signature \
             decides about this repository, so it does not change.</p>\n",
            count(*branches, "branch", "branches"),
            count(*tags, "tag", "tags"),
        ),
    }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

//! What a person reads who has just started the server: where it is, where the data is, what to try.

use std::fmt::Write as _;
use std::net::SocketAddr;

use grasp_core::name::npub;
use grasp_server::pages::Links;
use nostr::key::PublicKey;

use crate::compose::Folders;

/// What the text is about.
pub(crate) struct Welcome<'a> {
    /// What it really listens on.
    pub(crate) address: SocketAddr,
    /// What others call it.
    pub(crate) links: &'a Links,
    /// Where the data is.
    pub(crate) folders: &'a Folders,
    /// The relay's own key.
    pub(crate) owner: PublicKey,
}

/// The text. Its commands can be copied as they are.
pub(crate) fn text(it: &Welcome<'_>) -> String {
    let web = it.links.web();
    let mut out = format!(
        "ngit-grasp {version}\n\n\
         \x20 listens on    {address}\n\
         \x20 web and git   {web}\n\
         \x20 relay         {relay}\n\
         \x20 repositories  {git}\n\
         \x20 events        {events}\n\
         \x20 relay key     {owner}\n",
        version = env!("CARGO_PKG_VERSION"),
        address = it.address,
        relay = it.links.relay(),
        git = it.folders.git.display(),
        events = it.folders.relay.display(),
        owner = npub(&it.owner),
    );
    if it.folders.temporary.is_some() {
        out.push_str("\n  NGIT_DATABASE_BACKEND=memory: all of it is gone after the stop.\n");
    }
    let _ = write!(
        out,
        "\nTry, in another terminal:\n\n\
         \x20 curl -H 'Accept: application/nostr+json' {web}\n\n\
         \x20 cargo install --locked ngit                # the client, once\n\
         \x20 ngit account create --name me              # a key, once\n\
         \x20 git init -b main hello && cd hello && git commit --allow-empty -m first\n\
         \x20 ngit init -d --name hello --identifier hello --description hello --grasp-server {web}\n\
         \x20 git clone \"$(git remote get-url origin)\" ../hello-again\n\n\
         README.md goes on from there, also without the client. Ctrl-C stops the server.\n\n"
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::service::ServiceAddress;

    #[test]
    fn it_says_where_it_listens_where_its_data_is_and_what_to_try() {
        let service = ServiceAddress::parse("127.0.0.1:7334", "/").expect("valid");
        let text = text(&Welcome {
            address: "127.0.0.1:7334".parse().expect("an address"),
            links: &Links::new(&service),
            folders: &Folders {
                git: "/srv/git".into(),
                relay: "/srv/relay".into(),
                temporary: None,
            },
            owner: PublicKey::from_hex(&"1".repeat(64)).expect("hex"),
        });
        for part in [
            "listens on    127.0.0.1:7334\n",
            "ws://127.0.0.1:7334\n",
            "/srv/git\n",
            "/srv/relay\n",
            "--grasp-server http://127.0.0.1:7334\n",
            "Ctrl-C",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        assert!(!text.contains("nsec") && !text.contains("memory"));
    }
}

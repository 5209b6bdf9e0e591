//! HTTP-5 and G1-18.

use bitcoin_hashes::sha256;

use super::*;

const FRAME: Frame<'static> = Frame {
    service_name: "Bob's <relay> & \"git\"",
    base_path: "/grasp",
    version: "0.1.0",
};
const ATTACK: &str = "<script>alert('1')</script>\"onload=\"x&";

fn repository_page(state: RepositoryState<'_>) -> String {
    repository(&RepositoryPage {
        frame: FRAME,
        identifier: ATTACK,
        name: Some(ATTACK),
        description: Some(ATTACK),
        owner_npub: "npub1owner",
        maintainer_npubs: &["npub1other".to_owned()],
        clone_url: "https://grasp.example.com/npub1owner/x.git",
        nostr_url: "nostr://npub1owner/grasp.example.com/x",
        workshop_url: "https://gitworkshop.dev/npub1owner/grasp.example.com/x",
        state,
    })
}

fn pages() -> Vec<String> {
    vec![
        landing(&Landing {
            frame: FRAME,
            description: ATTACK,
            web_url: "https://grasp.example.com",
            relay_url: "wss://grasp.example.com",
            owner_npub: "npub1owner",
            repositories: Some(7),
            grasps: &["GRASP-01"],
            criteria: ATTACK,
        }),
        repository_page(RepositoryState::Waiting),
        repository_page(RepositoryState::Served {
            head: Some(ATTACK),
            branches: 1,
            tags: 2,
            signed: ATTACK,
        }),
        repository_page(RepositoryState::Frozen {
            branches: 0,
            tags: 0,
        }),
        not_found(&NotFound {
            frame: FRAME,
            path: ATTACK,
            repository: true,
        }),
        not_found(&NotFound {
            frame: FRAME,
            path: ATTACK,
            repository: false,
        }),
    ]
}

/// HTTP-5, case 85
#[test]
fn nothing_that_comes_from_outside_becomes_markup() {
    for page in pages() {
        assert!(!page.contains("<script"), "{page}");
        assert!(!page.contains("\"onload"), "{page}");
        assert!(!page.contains("<relay>"), "{page}");
        assert!(
            page.contains("&lt;relay&gt; &amp; &quot;git&quot;"),
            "{page}"
        );
    }
    assert!(
        pages()[1]
            .contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;onload=&quot;x&amp;")
    );
}

/// HTTP-5: no script, no inline handler, nothing loaded from another host.
#[test]
fn a_page_loads_nothing_but_our_icon() {
    for page in pages() {
        let loads: Vec<&str> = page.split(" src=\"").skip(1).collect();
        assert!(
            loads.iter().all(|it| it.starts_with("/grasp/icon.png\"")),
            "{page}"
        );
        assert_eq!(page.matches("<link ").count(), 1);
        assert!(page.contains("<link rel=\"icon\" href=\"/grasp/icon.png\">"));
        assert!(
            !page.contains("style=\"") && !page.contains("url("),
            "{page}"
        );
        assert!(
            !page.contains("<form") && !page.contains("<iframe"),
            "{page}"
        );
    }
    assert!(!CONTENT_SECURITY_POLICY.contains("unsafe"));
}

/// HTTP-5: browsers refuse a style sheet whose hash the policy does not name.
#[test]
fn the_policy_names_the_hash_of_the_style_sheet() {
    let hash = base64(sha256::Hash::hash(html::STYLE.as_bytes()).as_ref());
    assert!(
        CONTENT_SECURITY_POLICY.contains(&format!("'sha256-{hash}'")),
        "the style sheet changed: its hash is now {hash}"
    );
}

#[test]
fn pages_are_readable_on_a_phone_and_in_the_dark() {
    for page in pages() {
        assert!(page.contains("width=device-width"));
        assert!(page.contains("prefers-color-scheme:dark"));
    }
}

/// G1-18
#[test]
fn a_repository_page_tells_how_to_clone_and_browse() {
    let page = repository_page(RepositoryState::Waiting);
    for line in [
        "git clone nostr://npub1owner/grasp.example.com/x",
        "git clone https://grasp.example.com/npub1owner/x.git",
        "href=\"https://gitworkshop.dev/npub1owner/grasp.example.com/x\"",
        "npub1other",
    ] {
        assert!(page.contains(line), "{line}");
    }
}

#[test]
fn counts_read_as_words() {
    let page = repository_page(RepositoryState::Served {
        head: None,
        branches: 1,
        tags: 0,
        signed: "today",
    });
    assert!(page.contains("1 branch, 0 tags. Signed today."));
}

#[test]
fn a_very_long_path_is_cut() {
    let path = "/€".repeat(5_000);
    let page = not_found(&NotFound {
        frame: FRAME,
        path: &path,
        repository: false,
    });
    assert!(page.len() < 8_000);
    assert!(page.contains('…'));
}

/// PRIV-5
#[test]
fn the_count_of_repositories_can_be_left_out() {
    let page = landing(&Landing {
        frame: FRAME,
        description: "",
        web_url: "",
        relay_url: "",
        owner_npub: "",
        repositories: None,
        grasps: &[],
        criteria: "",
    });
    assert!(!page.contains("Repositories</dt>"));
}

#[test]
fn the_icon_is_a_small_png() {
    assert!(ICON.starts_with(b"\x89PNG"));
    assert!(ICON.len() < 2048);
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .chain([&0, &0])
            .take(3)
            .fold(0_usize, |word, byte| word << 8 | usize::from(*byte));
        for place in 0..4 {
            let digit = ALPHABET[word >> (18 - 6 * place) & 63];
            out.push(if place > chunk.len() {
                '='
            } else {
                char::from(digit)
            });
        }
    }
    out
}

//! The relay information document (NIP-11): what is really on, and the limits that really hold
//! (N11-1 … N11-4).
//!
//! *Invariant:* a figure in it is read from the settings that enforce it, so it cannot promise what the
//! relay does not keep.

use nostr::key::PublicKey;
use serde_json::{Map, Value, json};

use crate::limits::RelayLimits;

/// NIP-77, listed only while set reconciliation is offered.
const NEGENTROPY_NIP: u16 = 77;

/// What the relay cannot know of itself.
#[derive(Debug, Clone)]
pub struct Info {
    /// What the service is called.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The relay owner.
    pub pubkey: PublicKey,
    /// Where its picture is.
    pub icon: Option<String>,
    /// How to reach the operator (N11-4).
    pub contact: Option<String>,
    /// Where the program comes from.
    pub software: String,
    /// Which release of it runs.
    pub version: String,
    /// What the whole server implements, in any order; 77 is dropped while it is off.
    pub supported_nips: Vec<u16>,
    /// `GRASP-XX`, in the order of N11-1.
    pub supported_grasps: Vec<String>,
    /// Which repositories are taken (N11-4).
    pub repo_acceptance_criteria: String,
    /// How the service is curated beyond keeping spam out; absent if it is not (G1-10).
    pub curation: Option<String>,
    /// How many seconds ahead of our clock an event may be (KIND-7).
    pub created_at_ahead_max: Option<u64>,
    /// Whether clients must authenticate (GRASP-08).
    pub auth_required: bool,
}

/// The document.
pub fn document(info: &Info, limits: &RelayLimits) -> Value {
    let mut out = Map::new();
    let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
    put("name", json!(info.name));
    put("description", json!(info.description));
    put("pubkey", json!(info.pubkey.to_hex()));
    for (name, value) in [
        ("icon", &info.icon),
        ("contact", &info.contact),
        ("curation", &info.curation),
    ] {
        if let Some(value) = value {
            put(name, json!(value));
        }
    }
    put("software", json!(info.software));
    put("version", json!(info.version));
    put("supported_nips", json!(supported_nips(info, limits)));
    put("supported_grasps", json!(info.supported_grasps));
    put(
        "repo_acceptance_criteria",
        json!(info.repo_acceptance_criteria),
    );
    put("limitation", limitation(info, limits));
    Value::Object(out)
}

fn supported_nips(info: &Info, limits: &RelayLimits) -> Vec<u16> {
    let mut nips = info.supported_nips.clone();
    nips.retain(|nip| *nip != NEGENTROPY_NIP || limits.negentropy.enabled);
    nips.sort_unstable();
    nips.dedup();
    nips
}

/// N11-2.
fn limitation(info: &Info, limits: &RelayLimits) -> Value {
    let mut out = json!({
        "max_message_length": limits.message_bytes_max,
        "max_subscriptions": limits.subscriptions_max,
        "max_filters": limits.filters_max,
        "max_limit": limits.filter_limit,
        "default_limit": limits.filter_limit,
        "max_subid_length": limits.subscription_id_max,
        "max_event_tags": limits.event_tags_max,
        "max_event_size": limits.event_bytes_max,
        "restricted_writes": true,
        "auth_required": info.auth_required,
        "payment_required": false,
    });
    if let Some(ahead) = info.created_at_ahead_max {
        out["created_at_upper_limit"] = json!(ahead);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::NegentropyLimits;

    fn info() -> Info {
        Info {
            name: "n".into(),
            description: "d".into(),
            pubkey: PublicKey::from_hex(&"1".repeat(64)).expect("hex"),
            icon: None,
            contact: None,
            software: "s".into(),
            version: "v".into(),
            supported_nips: vec![77, 1, 11, 1],
            supported_grasps: vec!["GRASP-01".into()],
            repo_acceptance_criteria: "c".into(),
            curation: None,
            created_at_ahead_max: Some(900),
            auth_required: false,
        }
    }

    /// N11-1, N11-2, G1-8, G1-9, G1-10
    #[test]
    fn the_document_tells_what_is_on_and_what_holds() {
        let limits = RelayLimits {
            filter_limit: 123,
            ..RelayLimits::default()
        };
        let document = document(&info(), &limits);
        assert_eq!(document["supported_nips"], json!([1, 11, 77]));
        assert_eq!(document["supported_grasps"], json!(["GRASP-01"]));
        assert_eq!(document["repo_acceptance_criteria"], "c");
        assert_eq!(document.get("curation"), None);
        let limitation = &document["limitation"];
        assert_eq!(limitation["max_message_length"], 5_242_880);
        assert_eq!(limitation["max_limit"], 123);
        assert_eq!(limitation["default_limit"], 123);
        assert_eq!(limitation["max_subid_length"], 250);
        assert_eq!(limitation["restricted_writes"], true);
        assert_eq!(limitation["created_at_upper_limit"], 900);
    }

    /// Case 63
    #[test]
    fn negentropy_is_not_listed_while_it_is_off() {
        let negentropy = NegentropyLimits {
            enabled: false,
            ..NegentropyLimits::default()
        };
        let limits = RelayLimits {
            negentropy,
            ..RelayLimits::default()
        };
        assert_eq!(document(&info(), &limits)["supported_nips"], json!([1, 11]));
    }
}

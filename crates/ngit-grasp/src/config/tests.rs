//! The rules of §19.

use super::setting::Effect;
use super::source::{Mistakes, Sources};
use super::*;

fn sources(environment: &[(&str, &str)]) -> Sources {
    let mut sources = Sources::default();
    sources.environment.extend(
        environment
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned())),
    );
    sources
}

fn load(environment: &[(&str, &str)]) -> Result<Loaded, Mistakes> {
    Config::load(&sources(environment))
}

#[test]
fn without_any_setting_there_is_a_working_configuration() {
    let loaded = load(&[]).expect("the defaults are valid");
    let config = loaded.config;
    assert_eq!(config.service.bind_address.to_string(), "127.0.0.1:7334");
    assert_eq!(config.public.authority(), "127.0.0.1:7334");
    assert_eq!(config.storage.git_data_path.to_str(), Some("./data/git"));
    let [warning] = loaded.warnings.as_slice() else {
        panic!("one warning, about the domain: {:?}", loaded.warnings);
    };
    assert!(warning.contains("NGIT_DOMAIN"), "{warning}");
}

/// §19: flag, then environment, then `.env`, then default.
#[test]
fn a_flag_beats_the_environment_which_beats_dotenv_which_beats_the_default() {
    let mut sources = Sources::default();
    let limit = |sources: &Sources| {
        Config::load(sources)
            .expect("valid")
            .config
            .relay
            .relay_filter_limit
            .get()
    };
    assert_eq!(limit(&sources), 500);
    let name = || "NGIT_RELAY_FILTER_LIMIT".to_owned();
    sources.dotenv.insert(name(), "1".to_owned());
    assert_eq!(limit(&sources), 1);
    sources.environment.insert(name(), "2".to_owned());
    assert_eq!(limit(&sources), 2);
    sources.flags.insert(name(), "3".to_owned());
    assert_eq!(limit(&sources), 3);
}

#[test]
fn every_mistake_is_reported_at_once_by_variable_name() {
    let wrong = [
        ("NGIT_DOMAIN", "https://grasp.example.com/"),
        ("NGIT_BIND_ADDRESS", "7334"),
        ("NGIT_BASE_PATH", "grasp/"),
        ("NGIT_TRUSTED_PROXY_CIDRS", "10.0.0.0/8,proxy"),
        ("NGIT_DATABASE_BACKEND", "nostrdb"),
        ("NGIT_RELAY_MAX_FILTERS", "0"),
        ("NGIT_RELAY_OUTBOUND_BYTES", "5 bananas"),
        ("NGIT_GIT_QUARANTINE_PERCENT", "101"),
        ("NGIT_METRICS_ENABLED", "yes"),
        ("NGIT_USER_INDEX_RELAYS", "https://not.a.relay"),
        ("NGIT_TEST", "perhaps"),
        ("NGIT_TEST_LISTENER_FD", "-3"),
    ];
    let Mistakes(mistakes) = load(&wrong).expect_err("all of it is wrong");
    let mut named: Vec<&str> = mistakes.iter().map(|one| one.of.as_str()).collect();
    named.sort_unstable();
    let mut expected = wrong.map(|(name, _)| name);
    expected.sort_unstable();
    assert_eq!(named, expected);
    let text = Mistakes(mistakes).to_string();
    assert!(text.contains("12 mistakes"), "{text}");
}

#[test]
fn an_empty_scalar_is_unset_and_an_empty_list_is_empty() {
    let loaded = load(&[
        ("NGIT_BIND_ADDRESS", ""),
        ("NGIT_DOMAIN", " "),
        ("NGIT_USER_INDEX_RELAYS", ""),
    ])
    .expect("valid");
    assert_eq!(loaded.config.public.authority(), "127.0.0.1:7334");
    // An empty list differs from the default one.
    assert!(loaded.config.sync.user_index_relays.0.is_empty());
    let unset = load(&[("NGIT_DOMAIN", "grasp.example.com")]).expect("valid");
    assert!(!unset.config.sync.user_index_relays.0.is_empty());
}

/// CONF-1
#[test]
fn unknown_and_unread_variables_are_one_warning_each() {
    let loaded = load(&[
        ("NGIT_DOMAIN", "grasp.example.com"),
        ("NGIT_DOMIAN", "x"),
        ("NGIT_FUTURE", "x"),
        ("NGIT_SYNC_STARTUP_DELAY_SECS", "0"),
        ("NGIT_TOP_N_REPOS", "3"),
        ("NGIT_RELAY_OWNER_NSEC", "secret"),
        ("NGIT_TEST", "1"),
    ])
    .expect("valid");
    let [unread, unknown] = loaded.warnings.as_slice() else {
        panic!("two warnings: {:?}", loaded.warnings);
    };
    assert!(unread.contains("NGIT_SYNC_STARTUP_DELAY_SECS, NGIT_TOP_N_REPOS"));
    assert!(unknown.contains("NGIT_DOMIAN, NGIT_FUTURE"));
    assert!(!format!("{loaded:?}").contains("secret"));
}

#[test]
fn what_has_no_effect_yet_is_accepted_and_named_once_if_it_was_changed() {
    let loaded = load(&[
        ("NGIT_DOMAIN", "grasp.example.com"),
        ("NGIT_METRICS_ENABLED", "true"),
        ("NGIT_ARCHIVE_ALL", "true"),
        ("NGIT_GIT_CACHE_BYTES", "4"),
    ])
    .expect("valid");
    assert_eq!(
        loaded.warnings,
        ["set, but without effect in this version: NGIT_GIT_CACHE_BYTES, NGIT_ARCHIVE_ALL"]
    );
}

#[test]
fn the_test_preset_changes_defaults_and_yields_to_what_is_set() {
    let normal = load(&[]).expect("valid").config;
    assert_eq!(normal.purgatory.purgatory_sweep_secs.0.as_secs(), 60);
    let preset = load(&[("NGIT_TEST", "1"), ("NGIT_HUNT_DELAY_MS", "7")])
        .expect("valid")
        .config;
    assert_eq!(preset.purgatory.purgatory_sweep_secs.0.as_secs(), 1);
    assert_eq!(preset.hunt.hunt_delay_ms.0.as_millis(), 7);
    let settings: Vec<_> = sections().into_iter().flat_map(|(_, all)| all).collect();
    for (field, _) in preset::TEST_PRESET {
        assert!(settings.iter().any(|it| it.field == *field), "{field}");
    }
}

/// MNT-11
#[test]
fn the_weaker_maintainer_rule_warns() {
    let loaded = load(&[
        ("NGIT_DOMAIN", "grasp.example.com"),
        ("NGIT_MAINTAINER_RULE", "recursive"),
    ])
    .expect("valid");
    assert!(matches!(loaded.warnings.as_slice(), [one] if one.contains("weaker")));
}

/// PRIV-8
#[test]
fn a_promise_of_privacy_is_never_silently_broken() {
    assert!(load(&[("NGIT_PRIVATE_MODE", "true")]).is_err());
    assert!(load(&[("NGIT_PRIVATE_MEMBERS", "npub1x")]).is_err());
    assert!(load(&[("NGIT_PRIVATE_MODE", "false")]).is_ok());
}

#[test]
fn a_dotenv_file_is_read_and_its_mistakes_do_not_show_their_text() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join(".env");
    std::fs::write(
        &path,
        "# ours\nexport NGIT_DOMAIN='grasp.example.com'\nNGIT_RELAY_NAME=\"My relay\" # says who\nHOME=/x\n",
    )
    .expect("written");
    let mut sources = Sources::default();
    sources.take_dotenv(&path);
    let loaded = Config::load(&sources).expect("valid");
    assert_eq!(loaded.config.public.authority(), "grasp.example.com");
    assert_eq!(
        loaded.config.service.relay_name.as_deref(),
        Some("My relay")
    );
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);

    std::fs::write(&path, "NGIT RELAY nsec1secret\n").expect("written");
    let mut sources = Sources::default();
    sources.take_dotenv(&path);
    sources.take_dotenv(&dir.path().join("absent"));
    let error = Config::load(&sources)
        .expect_err("not an entry")
        .to_string();
    assert!(
        error.contains(".env") && !error.contains("secret"),
        "{error}"
    );
}

/// §16, §19: what the family's documents name is accepted here.
#[test]
fn no_setting_is_defined_twice_and_every_default_is_valid() {
    let settings: Vec<_> = sections().into_iter().flat_map(|(_, all)| all).collect();
    let mut names: Vec<_> = settings.iter().map(|it| it.field).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(settings.iter().any(|it| it.effect == Effect::Later));
    let all: Vec<(String, &str)> = settings
        .iter()
        .map(|it| (it.variable(), it.default))
        .collect();
    let given: Vec<(&str, &str)> = all
        .iter()
        .map(|(name, text)| (name.as_str(), *text))
        .collect();
    let loaded = load(&given).expect("every default may be written out");
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
}

/// CL-4: another GRASP server sends 60 commands a minute, each of two requests, and asks for events beside it.
#[test]
fn a_peer_server_is_far_below_the_limits_of_one_address() {
    let config = load(&[]).expect("valid").config;
    assert!(config.address.address_git_per_minute.get() >= 4 * 2 * 60);
    // As many as a peer runs of one GRASP host.
    assert!(config.address.address_git_running.get() >= 8);
    // One connection with 20 subscriptions that are all renewed within a minute.
    assert!(config.address.address_queries_per_minute.get() >= 4 * 20);
    assert!(config.address.address_connections.get() >= 4);
}

/// §19, ADR 10: a bad entry is skipped with a warning; a whitelist of nothing else is a slip that would open or
/// empty the service. A blacklist of nothing else does neither.
#[test]
fn bad_entries_of_lists_are_skipped_and_named() {
    let loaded = load(&[
        ("NGIT_DOMAIN", "grasp.example.com"),
        ("NGIT_REPOSITORY_WHITELIST", "project, npub1nonsense"),
        ("NGIT_REPOSITORY_BLACKLIST", "a/b"),
        ("NGIT_EVENT_BLACKLIST", "spammer"),
    ])
    .expect("valid");
    let lists = &loaded.config.curation;
    assert_eq!(lists.repository_whitelist.good.len(), 1);
    assert!(lists.repository_blacklist.good.is_empty());
    let [white, black, authors] = loaded.warnings.as_slice() else {
        panic!("three warnings: {:?}", loaded.warnings);
    };
    assert!(white.starts_with("NGIT_REPOSITORY_WHITELIST: skipped npub1nonsense ("));
    assert!(black.starts_with("NGIT_REPOSITORY_BLACKLIST: skipped a/b ("));
    assert!(authors.starts_with("NGIT_EVENT_BLACKLIST: skipped spammer ("));
    let Mistakes(mistakes) =
        load(&[("NGIT_REPOSITORY_WHITELIST", "npub1nonsense")]).expect_err("names nothing");
    assert_eq!(mistakes[0].of, "NGIT_REPOSITORY_WHITELIST");
}

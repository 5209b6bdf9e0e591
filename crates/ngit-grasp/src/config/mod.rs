//! The configuration: from flags, `NGIT_*` variables and `.env` to checked values, once, at the start.
//!
//! A setting is a field in one of the sections; [`setting`] says how its names follow from that. Reading
//! never stops at the first mistake. *Invariant:* the text of a secret is in no message and no `Debug`.

mod git;
mod network;
pub(crate) mod owner;
mod preset;
#[cfg(test)]
mod reference;
mod relay;
mod service;
pub(crate) mod setting;
pub(crate) mod source;
#[cfg(test)]
mod tests;
mod value;

use grasp_core::service::ServiceAddress;

pub(crate) use git::{Git, Hunt, Purgatory};
use network::Private;
pub(crate) use network::{Curation, Metrics, Sync};
pub(crate) use relay::{Address, Relay};
pub(crate) use service::{Service, Storage};
use setting::{Section, Setting};
use source::{Mistakes, Reader, Sources};
pub(crate) use value::Backend;

/// Everything an operator decided, checked.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Name, address, logging.
    pub(crate) service: Service,
    /// What the service is called from outside (NAME-5).
    pub(crate) public: ServiceAddress,
    /// Folders and retention.
    pub(crate) storage: Storage,
    /// Per connection.
    pub(crate) relay: Relay,
    /// Per client address.
    pub(crate) address: Address,
    /// Pushes and fetches.
    pub(crate) git: Git,
    /// What waits, and what hangs on a repository.
    pub(crate) purgatory: Purgatory,
    /// Data that is looked for elsewhere.
    pub(crate) hunt: Hunt,
    /// Other servers.
    pub(crate) sync: Sync,
    /// What is hosted.
    pub(crate) curation: Curation,
    /// Monitoring.
    pub(crate) metrics: Metrics,
}

/// Variables that are ours, but no settings: a secret without a flag, and what test harnesses pass.
const SPECIAL: [&str; 4] = [
    owner::VARIABLE,
    "NGIT_TEST",
    "NGIT_TEST_LISTENER_FD",
    "NGIT_FAILPOINT",
];

/// Named in documents of the family, read by none of its code.
const NAMED_BUT_UNREAD: [&str; 8] = [
    "NGIT_SYNC_STARTUP_DELAY_SECS",
    "NGIT_SYNC_RECONNECT_DELAY_SECS",
    "NGIT_SYNC_RECONNECT_LOOKBACK_DAYS",
    "NGIT_SYNC_BATCH_WINDOW_MS",
    "NGIT_AUTH_REQUIRED",
    "NGIT_RATE_LIMIT_ENABLED",
    "NGIT_ABUSE_THRESHOLD",
    "NGIT_TOP_N_REPOS",
];

/// All settings by section, in the order of the reference and of `--help`.
pub(crate) fn sections() -> Vec<(&'static str, Vec<Setting>)> {
    fn one<S: Section>() -> (&'static str, Vec<Setting>) {
        (S::TITLE, S::settings())
    }
    vec![
        one::<Service>(),
        one::<Storage>(),
        one::<Relay>(),
        one::<Address>(),
        one::<Git>(),
        one::<Purgatory>(),
        one::<Hunt>(),
        one::<Sync>(),
        one::<Curation>(),
        one::<Private>(),
        one::<Metrics>(),
    ]
}

/// The configuration, and what the operator should know although it starts.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The values.
    pub(crate) config: Config,
    /// One sentence each.
    pub(crate) warnings: Vec<String>,
    /// The inherited socket of a test harness, by its number.
    pub(crate) listener_fd: Option<i32>,
}

impl Config {
    /// Reads and checks everything.
    pub(crate) fn load(sources: &Sources) -> Result<Loaded, Mistakes> {
        let mut reader = Reader::new(sources);
        let test = reader.value::<TestSwitch>("test", "false");
        let listener_fd = reader.value::<Option<Descriptor>>("test_listener_fd", "");
        reader.test_preset = test == Some(TestSwitch(true));

        let service = Service::read(&mut reader);
        let storage = Storage::read(&mut reader);
        let relay = Relay::read(&mut reader);
        let address = Address::read(&mut reader);
        let git = Git::read(&mut reader);
        let purgatory = Purgatory::read(&mut reader);
        let hunt = Hunt::read(&mut reader);
        let sync = Sync::read(&mut reader);
        let curation = Curation::read(&mut reader);
        if let Some(curation) = &curation {
            check_whitelist(curation, &mut reader);
        }
        let metrics = Metrics::read(&mut reader);
        if let Some(private) = Private::read(&mut reader) {
            check_privacy(&private, &mut reader);
        }
        let public = service.as_ref().and_then(|it| public_name(it, &mut reader));

        let config = (|| {
            Some(Config {
                public: public?,
                service: service?,
                storage: storage?,
                relay: relay?,
                address: address?,
                git: git?,
                purgatory: purgatory?,
                hunt: hunt?,
                sync: sync?,
                curation: curation?,
                metrics: metrics?,
            })
        })();
        match config {
            Some(config) if reader.mistakes.is_empty() => Ok(Loaded {
                warnings: warnings(&config, sources, &reader),
                listener_fd: listener_fd.flatten().map(|Descriptor(number)| number),
                config,
            }),
            _ => Err(Mistakes(reader.mistakes)),
        }
    }
}

/// NAME-5: the domain, else the address it listens on.
fn public_name(service: &Service, reader: &mut Reader<'_>) -> Option<ServiceAddress> {
    let domain = service.domain.as_ref().map_or_else(
        || service.bind_address.to_string(),
        |domain| domain.0.clone(),
    );
    match ServiceAddress::parse(&domain, &service.base_path.0) {
        Ok(public) => Some(public),
        Err(error) => {
            reader.mistake("NGIT_DOMAIN", &format!("cannot be used: {error}"));
            None
        }
    }
}

/// A whitelist that names nothing would open a closed service or empty it, and is most likely a slip (ADR 10).
fn check_whitelist(curation: &Curation, reader: &mut Reader<'_>) {
    let list = &curation.repository_whitelist;
    if list.good.is_empty() && !list.bad.is_empty() {
        reader.mistake(
            "NGIT_REPOSITORY_WHITELIST",
            "has no entry that names a repository; leave it unset to host all",
        );
    }
}

/// PRIV-8, and that a promise of privacy is never silently broken.
fn check_privacy(private: &Private, reader: &mut Reader<'_>) {
    if private.private_mode {
        reader.mistake(
            "NGIT_PRIVATE_MODE",
            "is not available in this version; starting would publish what is meant to be private",
        );
    } else if !private.private_members.0.is_empty() {
        reader.mistake(
            "NGIT_PRIVATE_MEMBERS",
            "names members, but NGIT_PRIVATE_MODE is not true",
        );
    }
}

fn warnings(config: &Config, sources: &Sources, reader: &Reader<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if config.service.domain.is_none() {
        warnings.push(format!(
            "NGIT_DOMAIN is not set: the service calls itself {}, which only works on this machine; \
             set it to the public host name before others announce repositories here",
            config.public.authority()
        ));
    }
    if config.service.maintainer_rule == grasp_core::maintainers::MaintainerRule::Recursive {
        warnings.push(
            "NGIT_MAINTAINER_RULE=recursive: whoever a maintainer lists may move refs without having \
             agreed, which is the weaker authority (MNT-11)"
                .to_owned(),
        );
    }
    let lists = &config.curation;
    for (name, bad) in [
        ("NGIT_REPOSITORY_WHITELIST", &lists.repository_whitelist.bad),
        ("NGIT_REPOSITORY_BLACKLIST", &lists.repository_blacklist.bad),
        ("NGIT_EVENT_BLACKLIST", &lists.event_blacklist.bad),
        (
            "NGIT_STARTUP_INTEGRITY_IDENTIFIERS",
            &config.storage.startup_integrity_identifiers.bad,
        ),
    ] {
        if !bad.is_empty() {
            warnings.push(format!("{name}: skipped {}", bad.join(", ")));
        }
    }
    if !reader.without_effect.is_empty() {
        warnings.push(format!(
            "set, but without effect in this version: {}",
            reader.without_effect.join(", ")
        ));
    }
    let known: std::collections::BTreeSet<String> = sections()
        .iter()
        .flat_map(|(_, settings)| settings.iter().map(Setting::variable))
        .chain(SPECIAL.map(str::to_owned))
        .collect();
    let (unread, unknown): (Vec<&str>, Vec<&str>) = sources
        .names()
        .into_iter()
        .filter(|name| !known.contains(*name))
        .partition(|name| NAMED_BUT_UNREAD.contains(name));
    if !unread.is_empty() {
        warnings.push(format!(
            "accepted, but never had an effect: {}",
            unread.join(", ")
        ));
    }
    if !unknown.is_empty() {
        warnings.push(format!(
            "unknown, so ignored; is it misspelt? {}",
            unknown.join(", ")
        ));
    }
    warnings
}

/// `NGIT_TEST`: harnesses write `1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TestSwitch(bool);

impl setting::Value for TestSwitch {
    const TAKES: &'static str = "`1`";

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "1" | "true" => Ok(Self(true)),
            "0" | "false" => Ok(Self(false)),
            _ => Err("`1`, or unset".to_owned()),
        }
    }
}

/// The number of an inherited file descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Descriptor(i32);

impl setting::Value for Descriptor {
    const TAKES: &'static str = "a file descriptor";

    fn parse(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(number @ 0..) => Ok(Self(number)),
            _ => Err("the number of an open socket".to_owned()),
        }
    }
}

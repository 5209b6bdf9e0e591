//! A GRASP server as one value: the store, the repositories, the relay and the routes, tied together.
//!
//! [`service::Service`] is the only way to admit an event or complete a push; the routes and the relay
//! call it. *Invariant:* nothing but its `reconcile` writes refs, and nothing is published before the
//! repositories it speaks of are in line.

#![forbid(unsafe_code)]

mod clock;
pub mod control;
mod hunt;
mod identity;
mod listener;
mod metrics;
pub mod pages;
mod routes;
mod service;
mod settings;
mod sync;
mod words;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use grasp_core::name::Identifier;
use grasp_git::Repositories;
use grasp_git::http::{Fetches, UploadConfig};
use grasp_relay::address::{AddressResolver, Addresses};
use grasp_relay::{Fanout, Parts, Relay};
use grasp_store::Store;
use http::{Request, Response};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::info;

use control::{Desk, Socket};
use hunt::Hunting;
use identity::Identity;
use listener::Answer as _;
use metrics::Monitoring;
use routes::Mount;
use service::PushLimits;
use sync::Following;

pub use clock::Clock;
pub use identity::IdentitySettings;
pub use service::{
    CheckError, Checked, Ejected, ExplainError, Explained, Finding, HeldScope, Landing, OwedError,
    Places, Refusal, Refused, Restored, Service, Surveyed, TakeError, Taken, Unwanted,
};
pub use settings::{Build, Exposure, GitLimits, MonitoringSettings, Settings, Timers};
pub use sync::{FollowSettings, Follower};

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The event store cannot be opened.
    #[error(transparent)]
    Store(#[from] grasp_store::OpenError),
    /// The git directory cannot be used.
    #[error(transparent)]
    Git(#[from] grasp_git::OpenError),
}

impl OpenError {
    /// Whether another process holds the data, so that it can be had once that has ended (CLI-2).
    pub fn is_in_use(&self) -> bool {
        matches!(
            self,
            Self::Store(grasp_store::OpenError::Locked { .. })
                | Self::Git(grasp_git::OpenError::InUse { .. })
        )
    }
}

/// A server whose data is open and that is ready to listen.
pub struct Server {
    app: Arc<routes::App>,
    monitoring: Arc<Monitoring>,
    monitoring_listener: Option<TcpListener>,
    desk: Arc<Desk>,
    control: Option<Socket>,
    follow: Option<FollowSettings>,
    identity: Option<IdentitySettings>,
    service: Service,
    timers: Timers,
    surveyed: Vec<Identifier>,
    stop: CancellationToken,
}

impl Server {
    /// Opens the data and ties everything together. Reads the disk, so call it before anybody waits.
    /// Must be called inside a tokio runtime.
    pub fn open(settings: Settings) -> Result<Self, OpenError> {
        Self::open_at(settings, Clock::system())
    }

    /// [`Server::open`] under a clock of the caller's.
    pub fn open_at(settings: Settings, clock: Clock) -> Result<Self, OpenError> {
        let store_metrics = Arc::<grasp_store::Metrics>::default();
        let store = Store::open_counted(
            &settings.relay_root,
            settings.store,
            Arc::clone(&store_metrics),
        )?;
        let git = Repositories::open(&settings.git_root, settings.git)?;
        let fanout = Arc::new(Fanout::new());
        let relay_metrics = Arc::new(grasp_relay::Metrics::default());
        let addresses = Addresses::new(settings.address, Arc::clone(&relay_metrics));
        let push_limits = PushLimits {
            pack: settings.pack.clone(),
            commands: settings.git_limits.commands,
            running: Arc::new(Semaphore::new(settings.git_limits.pushes)),
        };
        let fetches = Arc::new(Fetches::new(
            settings.git_limits.fetches,
            settings.git_limits.fetches_queued,
        ));
        let owner_hex = settings.policy.relay_owner.to_hex();
        let mount = Mount {
            base: settings.policy.service.base_path(),
            proposals: settings.policy.proposals_hosted,
        };
        let links = pages::Links::new(&settings.policy.service);
        let relay_clock = clock.for_relay();
        let service = Service::new(
            store.clone(),
            git,
            settings.policy,
            clock,
            Arc::clone(&fanout),
            settings.timers.clone(),
            push_limits,
        );
        let place = control::Place {
            git_root: settings.git_root,
            relay_root: settings.relay_root,
            disk_floor: settings.store.disk_floor,
            pushes_max: settings.git_limits.pushes,
        };
        let monitoring = Monitoring {
            service: service.clone(),
            relay: Arc::clone(&relay_metrics),
            store: store_metrics,
            fetches: Arc::clone(&fetches),
            abuse_threshold: settings.monitoring.abuse_threshold,
            relays_listed: settings.monitoring.relays_listed,
            build: settings.monitoring.build,
            following: Arc::default(),
            hunting: Arc::default(),
        };
        let document = grasp_relay::nip11::document(&settings.info, &settings.relay);
        let relay = Relay::new(Parts {
            store,
            intake: Arc::new(service.clone()),
            fanout,
            addresses: addresses.clone(),
            metrics: relay_metrics,
            limits: settings.relay,
            clock: relay_clock,
        });
        let stop = CancellationToken::new();
        let app = routes::App {
            service: service.clone(),
            relay,
            relay_information: document.to_string().into(),
            addresses,
            resolver: AddressResolver::new(settings.trusted_proxies, "NGIT_TRUSTED_PROXY_CIDRS"),
            mount,
            info: settings.info,
            links,
            pack_bytes: settings.pack.bytes,
            upload: UploadConfig {
                request_max: settings.git_limits.request_bytes,
                ..UploadConfig::new(fetches)
            },
            owner_hex,
            stop: stop.clone(),
            monitoring: (settings.monitoring.exposure == Exposure::Public)
                .then(|| monitoring.clone()),
        };
        let monitoring = Arc::new(monitoring);
        Ok(Self {
            app: Arc::new(app),
            desk: Arc::new(Desk::new(Arc::clone(&monitoring), place)),
            control: None,
            follow: None,
            identity: None,
            monitoring,
            monitoring_listener: None,
            service,
            timers: settings.timers,
            surveyed: settings.surveyed,
            stop,
        })
    }

    /// The way in for events, for whoever runs beside the routes.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Answers one request of `peer`, as [`Server::run`] does for those that arrive by its listener.
    pub async fn answer(&self, request: Request<Body>, peer: SocketAddr) -> Response<Body> {
        self.app.answer(request, peer).await
    }

    /// Closes the data of a server that does not [run](Server::run).
    pub async fn close(self) {
        self.service.close().await;
    }

    /// Answers `/metrics` on a socket of its own. It is nowhere else then if the settings say
    /// [`Exposure::Own`].
    #[must_use]
    pub fn monitored_on(mut self, listener: TcpListener) -> Self {
        self.monitoring_listener = Some(listener);
        self
    }

    /// Answers operators on the control socket too (CLI-5).
    #[must_use]
    pub fn controlled_by(mut self, socket: Socket) -> Self {
        self.control = Some(socket);
        self
    }

    /// Follows other servers while it runs (GRASP-02).
    #[must_use]
    pub fn following(mut self, settings: FollowSettings) -> Self {
        self.follow = Some(settings);
        self
    }

    /// Makes known who runs this relay, here and where people look for it (IDN-2). Not for a private service.
    #[must_use]
    pub fn introduced(mut self, settings: IdentitySettings) -> Self {
        self.identity = Some(settings);
        self
    }

    /// Where operators' questions are answered, for whoever asks without a socket.
    pub fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// Serves until `shutdown`: then no new connection is taken, running pushes end, and the store is
    /// closed (CLI-2).
    pub async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let housekeeping = tokio::spawn(self.service.clone().run_housekeeping());
        let survey = tokio::spawn(self.service.clone().run_survey(self.surveyed));
        let address = |listener: &TcpListener| listener.local_addr().ok();
        self.desk.opened(control::Listening {
            public: address(&listener),
            monitoring: self.monitoring_listener.as_ref().and_then(address),
        });
        let service = &self.service;
        let hunting = self.follow.as_ref().map(|it| Hunting::start(service, it));
        if let Some(hunting) = &hunting {
            self.monitoring.hunt(hunting.view());
        }
        let identity = self.identity.map(|it| Identity::new(service.clone(), it));
        if let Some(identity) = &identity {
            identity.introduce().await;
        }
        let made_known = identity.map(|it| tokio::spawn(it.make_known()));
        let following = self.follow.map(|it| Following::start(service, it));
        if let Some(following) = &following {
            self.monitoring.follow(following.view());
        }
        let controlled = self.control.map(|socket| {
            let (desk, stop) = (Arc::clone(&self.desk), self.stop.clone());
            tokio::spawn(socket.run(desk, stop))
        });
        let monitored = self.monitoring_listener.map(|listener| {
            let (monitoring, stop) = (Arc::clone(&self.monitoring), self.stop.clone());
            tokio::spawn(listener::run(monitoring, listener, stop, self.timers.stop))
        });
        let listening = listener::run(
            Arc::clone(&self.app),
            listener,
            self.stop.clone(),
            self.timers.stop,
        );
        tokio::pin!(listening);
        tokio::select! {
            () = &mut listening => {}
            () = shutdown => {
                info!("stopping: running requests may end");
                self.stop.cancel();
                listening.await;
            }
        }
        if let Some(following) = following {
            following.stop().await;
        }
        if let Some(hunting) = hunting {
            hunting.stop().await;
        }
        if let Some(monitored) = monitored {
            // Its listener ends by `stop`; a scrape that still runs is of no use any more.
            monitored.abort();
        }
        if let Some(controlled) = controlled {
            self.stop.cancel();
            // One that panicked has told so itself.
            let _ = controlled.await;
        }
        for task in [housekeeping, survey].into_iter().chain(made_known) {
            task.abort();
            // An aborted task is an expected end here; one that panicked has told so itself.
            let _ = task.await;
        }
        self.service.close().await;
        info!("stopped");
    }
}

//! A server that runs as the binary lets it run: it listens, and goes to others.

use std::future::pending;

use grasp_server::{FollowSettings, Service};
use grasp_sync::hunt::HuntSettings;
use grasp_sync::outbound::OutboundPolicy;
use grasp_sync::{dial, engine, intake};
use grasp_testkit::HttpConnection;
use nostr::key::Keys;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::World;

/// Ends when it is dropped.
pub(super) struct Running {
    pub(super) service: Service,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl World {
    /// The server runs from now on, and may go to this machine's own addresses. What it decides goes by the world's clock, its
    /// timers by tokio's.
    pub(crate) async fn run(&mut self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let server = self.server.take().expect("it is there");
        let service = server.service().clone();
        let server = server.following(self.follow_settings());
        let task = tokio::spawn(server.run(listener, pending()));
        self.running = Some(Running { service, task });
        let mut connection = HttpConnection::connect(&address).await;
        connection.request("GET", "/", &[]).await;
    }

    fn follow_settings(&self) -> FollowSettings {
        let owner = Keys::parse(&"01".repeat(32)).expect("a key");
        FollowSettings {
            engine: engine::Settings {
                service: Some(self.settings.policy.service.clone()),
                ..engine::Settings::default()
            },
            dial: dial::Settings {
                policy: OutboundPolicy {
                    allow_non_global: true,
                    ..OutboundPolicy::default()
                },
                owner: Some(owner.public_key()),
                user_agent: "a test".to_owned(),
            },
            intake: intake::Settings::default(),
            descendants: 10,
            hunt: HuntSettings::default(),
            proposal_urls: 10,
            owner,
        }
    }
}

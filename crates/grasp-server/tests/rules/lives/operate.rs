//! What time does, and the operator.

use grasp_core::curation::{Curation, RepositoryEntry, RepositoryList};

use super::life::Life;
use super::step::{PEOPLE, Step};
use crate::naive::{self, Lists};
use crate::world::address;

impl Life {
    pub(super) async fn operate(&mut self, step: &Step) {
        match step {
            Step::Pass { secs } => {
                self.world.pass(*secs).await;
                self.sweep();
            }
            Step::Restart => {
                self.world.restart_after(10).await;
                self.sweep();
            }
            Step::Kill => {
                self.world.kill_and_start_after(10).await;
                self.sweep();
            }
            Step::CleanUp => {
                let cleaned = self.world.service().clean_up_tests().await;
                cleaned.expect("the store works");
                self.naive.clean_up_tests();
            }
            Step::Restore { who } => self.restore(*who).await,
            Step::Relist {
                black,
                white,
                restores,
            } => self.relist(*black, *white, *restores).await,
            _ => {}
        }
    }

    fn sweep(&mut self) {
        self.naive.sweep(self.world.now().as_secs());
    }

    /// DEL-6
    async fn restore(&mut self, who: usize) {
        let owner = &self.people[who];
        let scope = address(owner).coordinate().clone();
        let restored = self.world.service().holding_restore(&scope).await;
        let restored = restored.expect("the store works");
        let expected = self.naive.restore(&owner.key());
        assert_eq!(told(&restored), expected, "{restored:?}");
    }

    /// DEL-7
    async fn relist(&mut self, black: u8, white: Option<u8>, restores: bool) {
        let keys = |set: u8| {
            let listed = (0..PEOPLE.len()).filter(move |who| set & (1 << who) != 0);
            listed.map(|who| self.people[who].key())
        };
        let list = |set: u8| -> RepositoryList { keys(set).map(RepositoryEntry::Owner).collect() };
        let lists = Lists {
            black: keys(black).collect(),
            white: white.map(|set| keys(set).collect()),
            restores,
        };
        let curation = Curation {
            blacklist: list(black),
            whitelist: white.map(list),
            blacklist_restores: restores,
            ..Curation::default()
        };
        self.world.restart_with(curation).await;
        self.sweep();
        self.naive.apply_lists(&lists);
    }
}

fn told(restored: &grasp_server::Restored) -> naive::Restored {
    match restored {
        grasp_server::Restored::Served => naive::Restored::Served,
        grasp_server::Restored::Waits => naive::Restored::Waits,
        grasp_server::Restored::Live => naive::Restored::Live,
        grasp_server::Restored::Gone => naive::Restored::Gone,
        grasp_server::Restored::Requested => naive::Restored::Requested,
        grasp_server::Restored::Refused(_) => naive::Restored::Refused,
    }
}

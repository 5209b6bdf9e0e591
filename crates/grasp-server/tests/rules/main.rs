//! The whole service under a clock that stands still until a test moves it: a real store, real
//! repositories, real git beside it; no sockets and no waiting. Each test is a rule.

mod announcements;
mod audit;
mod checks;
mod clock_steps;
mod deletions;
mod evidence;
mod explain;
mod fetched;
mod following;
mod holding;
mod idle;
mod integrity;
mod limits;
mod lists;
mod lives;
mod naive;
mod proposals;
mod purgatory;
mod removal;
mod repositories;
mod requests;
mod states;
mod survey;
#[cfg(feature = "seeded-defects")]
mod teeth;
mod vanish;
mod world;

use grasp_testkit::history;

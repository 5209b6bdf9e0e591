//! The git hunt by its rules, in virtual time.

mod behaviour;
mod groups;
mod hosts;
mod laws;
mod queue;
mod sim;
mod watch;

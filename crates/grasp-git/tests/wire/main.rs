//! The wire protocol against real git: its server as the reference, its client as the judge.

mod advertisement;
mod bounds;
mod clones;
mod pushes;
mod repository;
mod server;

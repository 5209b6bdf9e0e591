//! The wire protocol against real git: its server as the reference, its client as the judge.

mod advertisement;
mod repository;

//! The service that ties store and git together, and its routes and pages.

pub mod pages;

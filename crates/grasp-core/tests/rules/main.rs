//! The rules over whole projects: what a server of memory decides, step by step, by example and by law.
//! One program, so that it is linked once, for each of a thousand mutants too.

mod announcements;
mod cascade;
mod deletion;
mod maintainers;
mod order;
mod proposals;
mod purgatory;
mod push;
mod requests;
mod states;
mod support;

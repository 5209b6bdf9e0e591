//! See [`ngit_grasp_fuzz::git_hosts`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ngit_grasp_fuzz::git_hosts(data));

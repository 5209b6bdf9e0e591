//! See [`ngit_grasp_fuzz::packs`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ngit_grasp_fuzz::packs(data));

//! See [`ngit_grasp_fuzz::answers`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ngit_grasp_fuzz::answers(data));

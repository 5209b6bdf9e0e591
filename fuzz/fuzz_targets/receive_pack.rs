//! See [`ngit_grasp_fuzz::receive_pack`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ngit_grasp_fuzz::receive_pack(data));

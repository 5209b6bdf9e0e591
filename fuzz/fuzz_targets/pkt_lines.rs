//! See [`ngit_grasp_fuzz::pkt_lines`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ngit_grasp_fuzz::pkt_lines(data));

//! libFuzzer calls the target `media`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| irrun_fuzz::media::media(data));

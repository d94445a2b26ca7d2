//! libFuzzer calls the target `case`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| irrun_fuzz::case::case(data));

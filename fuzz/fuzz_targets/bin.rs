//! libFuzzer calls the target `bin`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| irrun_fuzz::bin::bin(data));

//! libFuzzer calls the target `shapes`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| irrun_fuzz::shapes::shapes(data));

//! libFuzzer calls the target `run`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| irrun_fuzz::run::run(data));

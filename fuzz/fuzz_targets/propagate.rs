//! libFuzzer calls the target `propagate`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| irrun_fuzz::propagate::propagate(data));

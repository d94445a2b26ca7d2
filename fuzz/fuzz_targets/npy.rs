//! libFuzzer calls the target `npy`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| irrun_fuzz::npy::npy(data));

//! libFuzzer calls the target `xml`.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| irrun_fuzz::xml::xml(data));

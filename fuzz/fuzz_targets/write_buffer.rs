#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cantle_faults::doors::fuzz::run("write-buffer", input));

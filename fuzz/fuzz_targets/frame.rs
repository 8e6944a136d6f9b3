//! Fuzz target for the checks in `src/frame.rs`.

#![cfg_attr(feature = "fuzzer", no_main)]

gpool_fuzz::target!(gpool_fuzz::frame::check);

//! Fuzz target for the checks in `src/import.rs`.

#![cfg_attr(feature = "fuzzer", no_main)]

gpool_fuzz::target!(gpool_fuzz::import::check);

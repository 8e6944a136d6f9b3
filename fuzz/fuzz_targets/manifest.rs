//! Fuzz target for the checks in `src/manifest.rs`.

#![cfg_attr(feature = "fuzzer", no_main)]

gpool_fuzz::target!(gpool_fuzz::manifest::check);

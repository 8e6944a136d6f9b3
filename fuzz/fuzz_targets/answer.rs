//! Fuzz target for the checks in `src/answer.rs`.

#![cfg_attr(feature = "fuzzer", no_main)]

gpool_fuzz::target!(gpool_fuzz::answer::check);

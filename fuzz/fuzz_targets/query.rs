//! Fuzz target for the checks in `src/query.rs`.

#![cfg_attr(fuzzing, no_main)]

gpool_fuzz::target!(gpool_fuzz::query::check);

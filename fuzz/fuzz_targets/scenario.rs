//! Fuzz target for the checks in `src/scenario.rs`.

#![cfg_attr(fuzzing, no_main)]

gpool_fuzz::target!(gpool_fuzz::scenario::check);

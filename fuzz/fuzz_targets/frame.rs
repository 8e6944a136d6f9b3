//! Fuzz target for the checks in `src/frame.rs`.

#![cfg_attr(fuzzing, no_main)]

gpool_fuzz::target!(gpool_fuzz::frame::check);

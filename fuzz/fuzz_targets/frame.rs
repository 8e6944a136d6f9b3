//! Fuzz target; what it tries stands in `src/frame.rs`.

#![cfg_attr(fuzzing, no_main)]

gpool_fuzz::target!(gpool_fuzz::frame::check);

//! Fuzz target for the checks in `src/device.rs`.

#![cfg_attr(fuzzing, no_main)]

gpool_fuzz::target!(gpool_fuzz::device::check);

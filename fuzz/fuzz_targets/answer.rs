//! Fuzz target for the checks in `src/answer.rs`.

#![cfg_attr(fuzzing, no_main)]

gpool_fuzz::target!(gpool_fuzz::answer::check);

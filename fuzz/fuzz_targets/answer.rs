//! Fuzz target; what it tries stands in `src/answer.rs`.

#![cfg_attr(fuzzing, no_main)]

gpool_fuzz::target!(gpool_fuzz::answer::check);

//! End-to-end tests: the real binary, real processes, real files. They check only what a user can
//! see; the behaviour of a single crate is tested in that crate.

#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    reason = "a test that fails panics anyway"
)]

mod act;
mod api;
mod arrays;
mod attached;
mod bad_input;
mod bad_life;
mod bad_shapes;
mod browser;
mod bulk;
mod checkpoint;
mod chosen;
mod clock;
mod comfort;
mod crash;
mod cut;
mod demo;
mod devices;
mod disk;
mod dump;
mod enforced;
mod environments;
mod examples;
mod exits;
mod faults;
mod flood;
mod forecast;
mod gangs;
mod greedy;
mod harness;
mod hostile;
mod http;
mod idle;
mod import;
mod instances;
mod interactive;
mod isolation;
mod kill;
mod left;
mod life;
mod limits;
mod lists;
mod loans;
mod logs;
mod lost_gpu;
mod mig;
mod moved;
mod moves;
mod nodes;
mod notify;
mod nvml;
mod order;
mod parts;
mod policy;
mod pools;
mod projects;
mod recovery;
mod released;
mod removed;
mod reserved;
mod resized;
mod rival;
mod script;
mod scripts;
mod security;
mod security_crowd;
mod security_http;
mod security_roles;
mod shares;
mod shims;
mod silent;
mod simulate;
mod slurm;
mod software;
mod spread;
mod steps;
mod store;
mod strangers;
mod submit;
mod summary;
mod transcripts;
mod users;
mod waste;
mod web;
mod why;
mod yields;

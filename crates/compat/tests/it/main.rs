//! Tests of the commands of other schedulers, of the tables of their flags, and of the page that is
//! generated from them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod arrays;
mod compat;
mod hostlist;
mod origin;
mod scontrol_update;
mod select;
mod sprio;
mod squeue;
mod sreport;
mod sshare;
mod totals;

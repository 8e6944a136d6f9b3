//! The state machine, driven event by event, with a store that answers when the test says so.

mod arrays;
mod budget;
mod claims;
mod durable;
mod exits;
mod gangs;
mod harness;
mod holds;
mod idle;
mod jobs;
mod life;
mod mig_plan;
mod outbox;
mod over_limit;
mod policy;
mod projects;
mod replan;
mod reseat;
mod reserve;
mod restart;
mod restore;
mod sessions;
mod set_aside;
mod submit;
mod subscriptions;
mod xids;

//! Tests of the public items of the crate, in one binary.

mod budget;
mod context;
mod device;
mod filter;
mod gpu;
mod job_course;
mod life;
mod mig;
mod notify;
mod output;
mod pattern;
mod policy_text;
mod prediction;
mod price;
mod project;
mod project_change;
mod quota;
mod request_edit;
mod request_job;
mod reservation;
mod resource;
mod share;
mod used;

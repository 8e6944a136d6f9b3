//! The answers of the scheduler, each a situation with its plan. A test's name says what a user
//! would expect.

mod anywhere;
mod arrays;
mod chosen;
mod cores;
mod devices;
mod drained;
mod exclusive;
mod exits;
mod gangs;
mod guests;
mod instances;
mod las;
mod limits;
mod moments;
mod moves;
mod nodes;
mod order;
mod overview;
mod parts;
mod planned;
mod pools;
mod preempt;
mod presets;
mod projects;
mod reading;
mod reclaim;
mod reserved;
mod room;
mod shares;
mod slots;
mod topology;
mod used;
mod useful;
mod user_caps;
mod why;

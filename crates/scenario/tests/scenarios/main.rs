//! What the scheduler answers, a situation and its plan at a time; each test is named by what a
//! user would ask or expect.

mod devices;
mod drained;
mod nodes;
mod order;
mod planned;
mod reading;
mod room;
mod shares;
mod why;

//! The scheduling core: a snapshot and a policy make a plan.

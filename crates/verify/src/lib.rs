//! An independent check of plans and states against the invariants.

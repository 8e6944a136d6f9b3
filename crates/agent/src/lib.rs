//! The agent of one node, and the shepherd of one task.

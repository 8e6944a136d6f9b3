//! The node-level scheduler: device choice and agent convergence.

//! The versioned API types.

//! The ranges of time that a page with charts can show.

/// The ranges as they are in addresses, with their hours.
pub const RANGES: [(&str, u32); 4] = [("1h", 1), ("24h", 24), ("7d", 168), ("30d", 720)];

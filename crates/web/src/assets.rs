//! The files that pages load.

/// A file with its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// The value of `Content-Type`.
    pub kind: &'static str,
    pub text: &'static str,
}

/// Returns the file with a name.
#[must_use]
pub fn asset(name: &str) -> Option<Asset> {
    match name {
        "style.css" => Some(Asset {
            kind: "text/css; charset=utf-8",
            text: include_str!("../assets/style.css"),
        }),
        "live.js" => Some(Asset {
            kind: "text/javascript; charset=utf-8",
            text: include_str!("../assets/live.js"),
        }),
        "cursor.js" => Some(Asset {
            kind: "text/javascript; charset=utf-8",
            text: include_str!("../assets/cursor.js"),
        }),
        "icon.svg" => {
            Some(Asset { kind: "image/svg+xml", text: include_str!("../assets/icon.svg") })
        }
        _ => None,
    }
}

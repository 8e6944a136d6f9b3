//! The frame of a page: navigation, the signed-in user and the chosen colors.

const PAGES: [(&str, &str); 10] = [
    ("/", "Overview"),
    ("/queue", "Queue"),
    ("/projects", "Projects"),
    ("/nodes", "Nodes"),
    ("/usage", "Usage"),
    ("/cost", "Cost"),
    ("/whatif", "What-if"),
    ("/reservations", "Reservations"),
    ("/admin", "Admin"),
    ("/docs", "API"),
];

#[derive(Debug, Clone, Copy, Default)]
pub struct Frame<'a> {
    pub path: &'a str,
    /// The signed-in user; empty without one.
    pub user: &'a str,
    /// The token that each form sends back.
    pub csrf: &'a str,
    /// `light` or `dark`, if the user chose one.
    pub colors: &'a str,
}

impl Frame<'_> {
    /// The links of the navigation, and whether each is the current page.
    pub(crate) fn links(&self) -> [(&'static str, &'static str, bool); PAGES.len()] {
        PAGES.map(|(path, name)| (path, name, path == self.path))
    }
}

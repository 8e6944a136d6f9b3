//! Pages about one object: a headline, then lines with labels.

use std::fmt::Write as _;

use super::safe::safe;

/// A page under construction. It removes control characters from all text.
#[derive(Debug, Clone, Default)]
pub struct Page {
    text: String,
}

impl Page {
    #[must_use]
    pub fn new(headline: &str) -> Self {
        let mut page = Self::default();
        page.line(headline);
        page
    }

    /// Adds a line without a label.
    pub fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "{}", safe(text));
    }

    /// Adds a line with a label.
    pub fn label(&mut self, label: &str, text: &str) {
        let _ = writeln!(self.text, "  {label:<10} {}", safe(text));
    }

    /// Adds a line with a label if there is a text.
    pub fn label_if(&mut self, label: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.label(label, text);
        }
    }

    /// Adds lines; only the first has the label.
    pub fn labels(&mut self, label: &str, lines: &[String]) {
        for (n, line) in lines.iter().enumerate() {
            self.label(if n == 0 { label } else { "" }, line);
        }
    }

    #[must_use]
    pub fn text(self) -> String {
        self.text
    }
}

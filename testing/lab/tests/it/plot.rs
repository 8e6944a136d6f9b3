//! Plots as SVG: this module computes positions and gives shapes classes, and the style sheet of
//! the page sets their colors. Plotting crates write colors into each shape, so their pictures do
//! not fit both a light and a dark page, and they have no descriptions for screen readers; several
//! also depend on fonts and image encoders.

use gpool_lab::render::plot::{Axis, Block, Plot, plain};

fn plot(title: &str) -> Plot {
    let x = Axis::linear("hours", (0.0, 10.0), 5, plain);
    Plot::new(title, "it grows", (200.0, 100.0), x, Axis::percent("", (0.0, 1.0), 2))
}

#[test]
fn shapes_lie_where_their_values_are() {
    let mut plot = plot("Growth");
    plot.line("s1", &[(0.0, 0.0), (10.0, 1.0), (99.0, 9.0)]);
    plot.blocks("s2", [Block { x: (0.0, 5.0), y: (0.0, 0.5) }]);
    plot.dots("s3", &[(5.0, 0.5)]);
    plot.area("s4", &[(0.0, 0.0, 0.5), (10.0, 0.5, 1.0)]);
    let text = plot.to_string();
    for (class, path) in [
        ("line s1", "M54 54L184 14L184 14"),
        ("area s2", "M54 34h65v20h-65z"),
        ("dots s3", "M119 34h0"),
        ("area s4", "M54 34L184 14L184 34L54 54Z"),
    ] {
        assert!(text.contains(&format!("<path class=\"{class}\" d=\"{path}\"/>")), "{text}");
    }
}

#[test]
fn what_is_written_is_escaped_and_the_summary_is_there_twice() {
    let mut plot = plot("<script>alert('x')</script> & co");
    plot.text(0.0, 0.0, "\"><b>");
    let text = plot.to_string();
    assert!(!text.contains("<script") && !text.contains("<b>"), "{text}");
    assert!(text.contains("role=\"img\"") && text.contains(": it grows\""), "{text}");
    assert!(text.contains("<desc>it grows</desc>"), "{text}");
}

//! Tests of `objective`.

use gpool_units::objective::{Goal, MetricValue, Objective};

#[test]
fn an_objective_is_written_as_it_is_read() {
    for text in ["loss:min", "val/acc@1:max", "a:b:min"] {
        let objective = Objective::parse(text).expect(text);
        assert_eq!(objective.to_string(), text);
        let json = serde_json::to_string(&objective).unwrap();
        assert_eq!(serde_json::from_str::<Objective>(&json).unwrap(), objective);
    }
    let objective = Objective::parse("loss:minimize").unwrap();
    assert_eq!((objective.metric.as_str(), objective.goal), ("loss", Goal::Min));
    assert!(objective.is_better(0.1, 0.2) && !objective.is_better(f64::NAN, 0.2));
    assert!(Objective::parse("acc:maximize").unwrap().is_better(0.2, 0.1));
}

#[test]
fn a_wrong_objective_is_refused_with_the_position() {
    let long = format!("{}:min", "x".repeat(65));
    for (text, position) in [
        ("", 0),
        ("loss", 4),
        ("loss:", 5),
        ("loss:up", 5),
        (":min", 0),
        ("a b:min", 0),
        (&long, 0),
    ] {
        let error = Objective::parse(text).expect_err(text);
        assert_eq!(error.position, position, "{error}");
    }
}

#[test]
fn a_metric_value_is_finite_and_stays_the_same_in_json() {
    for value in [0.0, -1.5, 0.554_242, 1e-30, 3e38] {
        let stored = MetricValue::new(value).unwrap();
        let json = serde_json::to_string(&stored).unwrap();
        assert_eq!(serde_json::from_str::<MetricValue>(&json).unwrap(), stored, "{json}");
        assert!((stored.get() - value).abs() <= value.abs() * 1e-6, "{json}");
    }
    for value in [f64::NAN, f64::INFINITY, 1e39] {
        assert_eq!(MetricValue::new(value), None);
    }
    assert!(serde_json::from_str::<MetricValue>("1e39").is_err());
}

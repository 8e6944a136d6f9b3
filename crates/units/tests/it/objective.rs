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
    assert_eq!(Objective::parse("acc:maximize").unwrap().goal, Goal::Max);
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
fn a_metric_value_has_six_digits_and_stays_the_same_in_json() {
    let values = [
        ("0", "0e0"),
        ("0.25", "25e-2"),
        ("-1.5", "-15e-1"),
        ("5.54242e-1", "554242e-6"),
        ("1234567.8", "123456e1"),
        ("3e38", "3e38"),
        ("1.00000e-300", "100000e-305"),
        ("007", "7e0"),
    ];
    for (text, stored) in values {
        let value = MetricValue::parse(text).unwrap();
        assert_eq!(value.to_string(), stored, "{text}");
        let json = serde_json::to_string(&value).unwrap();
        assert_eq!(serde_json::from_str::<MetricValue>(&json).unwrap(), value, "{json}");
    }
    for text in ["", "NaN", "inf", "-", ".5", "1e99999", "0x1", "1e", "1 "] {
        assert_eq!(MetricValue::parse(text), None, "{text}");
    }
}

#[test]
fn a_goal_may_be_a_number_to_come_close_to() {
    for text in ["0.95", "-0.5", "3", "0.001", "12.5"] {
        let objective = Objective::parse(&format!("val:acc:{text}")).unwrap();
        assert_eq!(objective.goal, Goal::Near(MetricValue::parse(text).unwrap()));
        assert_eq!(objective.to_string(), format!("val:acc:{text}"));
    }
    assert_eq!(Objective::parse("acc:9.5e20").unwrap().to_string(), "acc:95e19");
    assert!(Objective::parse("acc:close").is_err());
}

//! Budgets as text.

use gpool_model::budget::{Budgets, Payer};
use gpool_model::{Money, ProjectName};

#[test]
fn budgets_are_written_as_they_are_read() {
    let text = "project.nlp=5000,user.ana=200.5,users=100";
    let budgets: Budgets = text.parse().expect("valid");
    assert_eq!(budgets.to_string(), text);
    let of = |payer: Payer| budgets.budget_of(&payer).map(|it| it.to_string());
    assert_eq!(of(Payer::User("ana".into())).as_deref(), Some("200.5"));
    assert_eq!(of(Payer::User("bo".into())).as_deref(), Some("100"));
    assert_eq!(of(Payer::Project(ProjectName::new("nlp"))).as_deref(), Some("5000"));
    assert_eq!(of(Payer::Project(ProjectName::new("vision"))), None);
    assert_eq!("none".parse::<Budgets>().expect("valid"), Budgets::default());
    assert_eq!(Budgets::default().to_string(), "none");
    assert_eq!(Money::parse("0.5").expect("valid").to_string(), "0.5");
}

#[test]
fn a_wrong_budget_is_refused() {
    for text in ["nlp=1", "project.=1", "project.nlp", "user.=1", "users=-1", "users.ana=1", ""] {
        assert!(text.parse::<Budgets>().is_err(), "{text}");
    }
}

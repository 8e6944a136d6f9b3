//! Reads the query string of a request: names and text, which a type may read as numbers or flags.

use gpool_wire::time::Time;
use gpool_wire::{Problem, query};

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    limit: Option<u32>,
    #[serde(default)]
    hold: bool,
    since: Option<Time>,
}

fn read(pairs: &[(&str, &str)]) -> Result<Params, Problem> {
    query::read(pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())))
}

#[test]
fn text_becomes_what_the_parameter_is() {
    let params = read(&[("hold", "true"), ("limit", "5")]).expect("both are known");
    assert_eq!((params.limit, params.hold), (Some(5), true));
    let params = read(&[("since", "2026-11-20T15:30:00Z")]).expect("it is a moment");
    assert_eq!(params.since.map(|it| it.to_string()).as_deref(), Some("2026-11-20T15:30:00.000Z"));
    let params = read(&[]).expect("all may be absent");
    assert_eq!((params.limit, params.hold), (None, false));
}

#[test]
fn what_does_not_fit_is_named_with_what_it_should_be() {
    let whole = r#""limit": a whole number from 0 to 4294967295, for example 5"#;
    for (pairs, detail, way) in [
        (&[("limit", "x")][..], r#"limit: it is the string "x""#, whole),
        (&[("limit", "")], r#"limit: it is the string """#, whole),
        (&[("limit", "-1")], r#"limit: it is the string "-1""#, whole),
        (&[("limit", "4294967296")], "limit: it is the number 4294967296", whole),
        (
            &[("hold", "1")],
            r#"hold: it is the string "1""#,
            r#""hold": true or false, for example true"#,
        ),
        (
            &[("limit", "1"), ("limit", "1")],
            r#"the query: "limit" is given twice"#,
            "leave one of them out",
        ),
        (
            &[("limits", "1")],
            r#"there is no field "limits" in the query"#,
            r#"did you mean "limit"?"#,
        ),
    ] {
        let problem = read(pairs).expect_err(detail);
        assert_eq!((&*problem.detail, &*problem.tries), (detail, &[way.to_owned()][..]));
    }
}

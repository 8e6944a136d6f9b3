//! Rules of notifications, as text.

use gpool_model::{NotifyOn, Refusal};
use gpool_wire::notify::{is_payer_rule, payer_rules, rules};

fn why(refused: Result<impl std::fmt::Debug, Refusal>) -> String {
    match refused.unwrap_err() {
        Refusal::Invalid { field, why } => format!("{field}: {why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn jobs_have_other_events_than_projects_and_users() {
    let one = |text: &str| [text.to_owned()];
    let of_payer = payer_rules(&one("all@mailto:ana@example.org")).unwrap().remove(0);
    assert_eq!(of_payer.on, [NotifyOn::Budget, NotifyOn::Digest].into());
    let of_job = rules(&one("all@mailto:ana@example.org")).unwrap().remove(0);
    assert_eq!(of_job.on, NotifyOn::ALL.map(|(_, on)| on).into());
    assert!(of_job.on.is_disjoint(&of_payer.on));
    assert_eq!(
        why(payer_rules(&one("done@https://a/x"))),
        "notify: \"done\" is not an event of projects and users; these are budget, digest, all; \
         write budget,digest@https://host/path"
    );
    assert_eq!(
        why(rules(&one("fail,digest@https://a/x"))),
        "notify: \"digest\" is not an event of jobs; these are hold, late, start, idle, \
         over_limit, near_limit, done, fail, timeout, cancel, end, all; \
         write done,fail@https://host/path"
    );
    let typo = why(payer_rules(&one("digets@https://a/x")));
    assert!(typo.ends_with("write digest@https://host/path"), "{typo}");
    for (text, words) in [
        ("end@https://a/x", "\"end\" is not an event of projects and users"),
        ("digest", "write budget,digest@https://host/path"),
        ("digest@ana", "is not an address"),
        ("digest@mailto:ana", "is not a mail address"),
    ] {
        let why = why(payer_rules(&one(text)));
        assert!(why.contains(words), "{text}: {why}");
    }
    let nine: Vec<String> = (0..9).map(|n| format!("digest@https://a/{n}")).collect();
    assert!(why(payer_rules(&nine)).contains("the maximum is 8"));
    assert_eq!(payer_rules(&one("none")).unwrap(), []);
    let both = ["budget@https://a/x".to_owned(), "digest@https://a/x".to_owned()];
    let merged = payer_rules(&both).unwrap();
    assert_eq!((merged.len(), &merged[0].on), (1, &of_payer.on));
}

#[test]
fn rules_differ_from_names_of_users() {
    for rule in ["none", "digest", "digest@x", "budget,digest@mailto:a@b", "dgiest@https://x/"] {
        assert!(is_payer_rule(rule), "{rule}");
    }
    for name in ["ana", "ana@lab.org", "digester", "65534"] {
        assert!(!is_payer_rule(name), "{name}");
    }
}

//! The public cases of shares and of reclaim, from the folder `shared` beside the repository. They
//! are not part of it: if they are absent, these tests report it and pass.

use std::path::PathBuf;

use gpool_kai::shares::{Buffers, Multiplier, Reclaim, divide, over_quota};
use gpool_model::{Amount, Weight};
use gpool_sched::fairshare::{
    Account, Claimant, Feedback, Ledger, Member, Reclaimer, Row, Tree, Victim,
};
use serde_json::Value;

/// The folder of the cases: `GPOOL_SHARED`, or else the next `shared` in a parent folder.
fn folder() -> Option<PathBuf> {
    let above = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let beside = || above.ancestors().map(|it| it.join("shared")).find(|it| it.is_dir());
    std::env::var_os("GPOOL_SHARED")
        .map(PathBuf::from)
        .or_else(beside)
        .map(|it| it.join("scenarios"))
}

fn cases(file: &str) -> Vec<Value> {
    let Some(path) = folder().map(|it| it.join(file)).filter(|it| it.is_file()) else {
        eprintln!("skipped: no data ({file})");
        return Vec::new();
    };
    let text = std::fs::read_to_string(path).unwrap();
    let Value::Object(mut file) = serde_json::from_str(&text).unwrap() else { panic!("no object") };
    let Some(Value::Array(cases)) = file.remove("cases") else { panic!("no cases") };
    cases
}

/// An amount in thousandths, for GPUs and all other kinds, since the rules treat them alike. It is
/// rounded, since the cases contain sums of fractions.
fn thousandths(number: &Value) -> u64 {
    let rounded = format!("{:.3}", number.as_f64().unwrap());
    rounded.replace('.', "").parse().unwrap()
}

fn amount(number: &Value) -> Amount {
    if number.is_null() { Amount::UNLIMITED } else { Amount::of(thousandths(number)).unwrap() }
}

fn claimant(queue: &Value, kind: &str) -> Claimant {
    let it = &queue["resources"][kind];
    let (guaranteed, limit, requested) = match it {
        // A kind that a case does not name is not divided there.
        Value::Null => (Amount::NOTHING, Amount::UNLIMITED, 0),
        _ => (amount(&it["deserved"]), amount(&it["limit"]), thousandths(&it["requested"])),
    };
    let number = |name: &str| it.get(name).map_or(0, thousandths);
    Claimant {
        guaranteed,
        limit,
        weight: Weight::from_thousandths(number("weight").try_into().unwrap()).unwrap(),
        priority: queue["priority"].as_i64().unwrap().try_into().unwrap(),
        usage: (number("usage") * 1000).try_into().unwrap(),
        claim: limit.cut(requested),
        step: 1000,
        share: number("share_before"),
        safe: guaranteed,
        kept: 0,
    }
}

/// The expected share of each queue for one kind, and the rest.
fn divided(case: &Value, kind: &str, total: u64) -> (Vec<(String, u64)>, u64) {
    let mut queues: Vec<&Value> = case["queues"].as_array().unwrap().iter().collect();
    queues.sort_by_key(|it| {
        let created = it["created"].as_u64();
        let priority = std::cmp::Reverse(it["priority"].as_i64());
        (priority, created, it["id"].as_str())
    });
    let mut level: Vec<Claimant> = queues.iter().map(|it| claimant(it, kind)).collect();
    let feedback = Feedback::from_thousandths(thousandths(&case["k"]).try_into().unwrap()).unwrap();
    let mut buffers = Buffers::default();
    let rest = match case["fn"].as_str().unwrap() {
        "over_quota_only" => over_quota(&mut level, total, 1000, feedback, &mut buffers),
        "deserved_then_over_quota" | "all_resources" => {
            divide(&mut level, total, 1000, feedback, &mut buffers)
        }
        other => panic!("unknown function {other}"),
    };
    let names = queues.iter().map(|it| it["id"].as_str().unwrap().to_owned());
    (names.zip(level.iter().map(|it| it.share)).collect(), rest)
}

/// The errors of one case, one line each.
fn wrong_shares(case: &Value) -> Vec<String> {
    let kinds: Vec<(&str, u64)> = match &case["total"] {
        Value::Object(totals) => ["gpu", "cpu", "memory"]
            .map(|kind| (kind, totals.get(kind).map_or(0, thousandths)))
            .to_vec(),
        total => vec![(case["resource"].as_str().unwrap(), thousandths(total))],
    };
    let mut wrong = Vec::new();
    for (kind, total) in kinds {
        let (shares, rest) = divided(case, kind, total);
        for (id, share) in shares {
            let expected = &case["expected"]["shares"][&id][kind];
            if !expected.is_null() && thousandths(expected) != share {
                wrong.push(format!("{id} {kind}: {share}, expected {expected} x 1000"));
            }
        }
        let expected = &case["expected"]["remaining"];
        if !expected.is_null() && thousandths(expected) != rest {
            wrong.push(format!("rest of {kind}: {rest}, expected {expected} x 1000"));
        }
    }
    wrong
}

fn report(name: &str, cases: &[Value], wrong: impl Fn(&Value) -> Vec<String>) {
    let failed: Vec<String> = cases
        .iter()
        .map(|case| (case, wrong(case)))
        .filter(|(_, wrong)| !wrong.is_empty())
        .map(|(case, wrong)| format!("{} {}\n  {}", case["id"], case["name"], wrong.join("\n  ")))
        .collect();
    eprintln!("{name}: {} passed, {} failed", cases.len() - failed.len(), failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn shares_are_divided_as_in_the_public_cases() {
    report("fair share", &cases("kai_fairshare_cases.json"), wrong_shares);
}

const KINDS: [&str; 3] = ["gpu", "cpu", "mem"];

fn amounts(it: &Value) -> Vec<u64> {
    KINDS.map(|kind| thousandths(&it[kind])).to_vec()
}

/// The tree of a case, with its accounts.
fn ledger(queues: &[Value]) -> (Tree, Ledger) {
    let name = |it: &Value| it["name"].as_str().unwrap().to_owned();
    let members: Vec<Member<String>> = queues
        .iter()
        .map(|it| Member {
            parent: it["parent"]
                .as_str()
                .map(|parent| queues.iter().position(|it| it["name"] == parent).unwrap()),
            priority: 0,
            created: 0,
            id: name(it),
        })
        .collect();
    let tree = Tree::new(&members).unwrap();
    let mut ledger = Ledger::new(&tree, KINDS.len());
    for (ix, queue) in queues.iter().enumerate() {
        for (kind, name) in KINDS.iter().enumerate() {
            let it = &queue["res"][name];
            let account = Account {
                guaranteed: amount(&it["deserved"]),
                promised: Amount::NOTHING,
                limit: amount(&it["limit"]),
                share: amount(&it["fair_share"]),
                held: thousandths(&it["allocated"]),
                planned: 0,
                held_for_good: thousandths(&it["allocated_non_preemptible"]),
            };
            ledger.set(tree.row(ix), kind, account);
        }
    }
    (tree, ledger)
}

fn wrong_reclaim(case: &Value) -> Vec<String> {
    let queues = case["queues"].as_array().unwrap();
    let (tree, ledger) = ledger(queues);
    let row = |name: &Value| -> Row {
        tree.row(queues.iter().position(|it| &it["name"] == name).unwrap())
    };
    let unit = amounts(&case["reclaimer"]["request"]);
    let reclaimer = Reclaimer {
        project: row(&case["reclaimer"]["queue"]),
        unit: &unit,
        preemptible: case["reclaimer"]["preemptible"].as_bool().unwrap(),
    };
    let mut pieces = Vec::new();
    if let Value::Object(by_queue) = &case["victim_pieces"] {
        for (queue, list) in by_queue {
            let queue = row(&Value::String(queue.clone()));
            pieces.extend(list.as_array().unwrap().iter().map(|it| (queue, amounts(it))));
        }
    }
    let victims: Vec<Victim<'_>> =
        pieces.iter().map(|(project, piece)| Victim { project: *project, piece }).collect();
    let multiplier = thousandths(&case["multiplier"]).try_into().unwrap();
    let rules = Reclaim::new(Multiplier::from_thousandths(multiplier).unwrap());
    let answer = match case["fn"].as_str().unwrap() {
        "can_reclaim" => rules.gate(&ledger, &reclaimer),
        "reclaimable" => rules.check(&tree, &ledger, &reclaimer, &victims),
        other => panic!("unknown function {other}"),
    };
    match answer.is_ok() == case["expected"].as_bool().unwrap() {
        true => Vec::new(),
        false => vec![format!("{answer:?}, expected {}", case["expected"])],
    }
}

#[test]
fn what_may_be_taken_back_is_as_in_the_public_cases() {
    report("reclaim rule", &cases("kai_reclaim_rule_cases.json"), wrong_reclaim);
}

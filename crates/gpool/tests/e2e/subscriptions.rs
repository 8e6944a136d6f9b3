//! Messages about projects and users: digests across a week and restarts, and budgets.

use serde_json::Value;

use crate::clock::Clock;
use crate::harness::{Cluster, until_so};
use crate::mail::MailServer;
use crate::notify::Endpoint;

fn n_taken(cluster: &Cluster) -> u64 {
    cluster.client().status().unwrap().notifications.taken
}

#[test]
fn a_digest_comes_once_a_week_to_a_web_address_and_by_mail_also_late() {
    let mut cluster = Cluster::unstarted(&["--devices", "sim:1xH100-80G"]);
    let Some(clock) = Clock::of(&mut cluster) else { return };
    let mut mail = MailServer::start(&[]);
    if let Some(mail) = &mail {
        let config = cluster.path("gpool.toml");
        std::fs::write(&config, format!("mail_server = \"smtp://localhost:{}\"\n", mail.port))
            .unwrap();
        cluster.variables.push(("GPOOL_CONFIG".to_owned(), config.display().to_string()));
    }
    cluster.up();
    let endpoint = Endpoint::new(|_| Some(200));
    cluster.gpool(["notify", "--user", &format!("digest@{}", endpoint.url)]).ok();
    if mail.is_some() {
        let rule = "digest,budget@mailto:pi@example.org";
        cluster.gpool(["notify", "--project", "default", rule]).ok();
    }
    let n_messages = 1 + u64::from(mail.is_some());
    let id = cluster.sh(&["--gpus", "1", "-J", "train"], "exit 3");
    let user = cluster.until_ended(&id).user;
    assert_eq!(n_taken(&cluster), 0, "the week is not over");
    // The server is down at the end of the week.
    cluster.kill();
    clock.set("+7d");
    cluster.up();
    let got = endpoint.until_got(1);
    let message = got[0].json();
    assert_eq!(message["type"], "digest.weekly");
    let data = &message["data"];
    assert_eq!((&data["kind"], &data["name"]), (&"user".into(), &user.clone().into()));
    assert_eq!((&data["n_ended"], &data["n_failed"]), (&1.into(), &1.into()));
    assert!(got[0].header("webhook-signature").starts_with("v1,"));
    if let Some(mail) = &mut mail {
        let message = mail.message();
        assert_eq!(message["to"], serde_json::json!(["pi@example.org"]));
        let text = message["text"].as_str().unwrap();
        for words in [
            "Subject: gpool: project default until Mon ",
            "jobs       1 job ended, 1 failed",
            "gpool digest --project default",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }
    until_so("all are taken", || n_taken(&cluster) == n_messages);
    cluster.kill();
    cluster.up();
    // This looks for news before it answers.
    cluster.gpool(["notify", "--project", "default", "none"]).ok();
    assert_eq!(cluster.client().notifications().unwrap().items, []);
    assert_eq!((n_taken(&cluster), endpoint.got().len()), (n_messages, 1));
}

#[test]
fn digests_and_subscriptions_are_printed_and_a_used_up_budget_is_reported() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let endpoint = Endpoint::new(|_| Some(200));
    let id = cluster.sh(&["-J", "train"], "exit 3");
    let user = cluster.until_ended(&id).user;
    let text = cluster.gpool(["digest"]).ok();
    assert!(text.contains(&format!("user       {user}\n")), "{text}");
    assert!(text.contains("jobs       1 job ended, 1 failed\n"), "{text}");
    let json = cluster.gpool(["digest", "--project", "default", "--json"]).json();
    assert_eq!((&json["kind"], &json["n_failed"]), (&"project".into(), &1.into()));
    cluster.gpool(["digest", "--project", "nowhere"]).refused(6, &["nowhere"]);
    assert!(cluster.gpool(["notify", "--user"]).ok().contains("sends no messages"));

    // Everything is more than no budget.
    cluster.gpool(["policy", "set", "prices=currency=EUR,gpu=1"]).ok();
    let nobody = cluster.gpool(["policy", "set", "budgets=user.nobody-here=1"]);
    nobody.refused(2, &["no user \"nobody-here\"", "would limit nothing"]);
    let nowhere = cluster.gpool(["policy", "set", "budgets=project.nowhere=1"]);
    nowhere.refused(6, &["no project \"nowhere\""]);
    cluster.gpool(["policy", "set", &format!("budgets=user.{user}=0")]).ok();
    let rule = format!("budget,digest@{}?token=hidden", endpoint.url);
    let shown = cluster.gpool(["notify", "--user", &rule]).ok();
    assert!(shown.contains("tells budget,digest@http://127.0.0.1:"), "{shown}");
    let message = endpoint.until_got(1)[0].json();
    assert_eq!(message["type"], "budget.reached");
    let data = &message["data"];
    let expected: [(&str, Value); 5] = [
        ("kind", "user".into()),
        ("name", user.clone().into()),
        ("percent", 100.into()),
        ("currency", "EUR".into()),
        ("budget", 0.0.into()),
    ];
    for (key, value) in expected {
        assert_eq!(data[key], value, "{key}: {data}");
    }
    until_so("it is taken", || n_taken(&cluster) == 1);
    let again = cluster.gpool(["notify", "--user", &user, &rule]).ok();
    assert!(again.contains("set by") && !again.contains("hidden"), "{again}");
    assert_eq!(cluster.client().notifications().unwrap().items, []);
    for (words, said) in [
        (&["notify", "--project", "default", "done@http://x/"][..], "budget, digest, all"),
        (&["notify", "--user", "digest"], "has no address"),
        (&["notify", &id, "fail,digest@http://x/"], "not an event of jobs"),
        (&["notify", &id], "addresses are missing"),
    ] {
        cluster.gpool(words).refused(2, &[said]);
    }
    assert!(cluster.gpool(["notify", "--user", "none"]).ok().contains("sends no messages"));
}

//! The requests of steps, values from a command line, and the places of inputs.

use gpool_valohai::Document;
use gpool_valohai::command::script;
use gpool_valohai::config::Step;
use gpool_valohai::shape::Mark;
use gpool_valohai::source::{Source, find, prefix};
use gpool_valohai::yaml::scalar;

fn step(rest: &str) -> Step {
    let text = format!("- step:\n    name: s\n    image: i\n    command: c\n{rest}");
    let document = Document::read(&text);
    assert!(document.can_run(), "{:?}", document.findings);
    document.config.steps[0].clone()
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

const FOUR: &str = "    environment-variables: [{name: VH_GPUS, default: 4}]\n";
const DEVICES: &str = "    resources: {devices: {nvidia.com/gpu: 2}}\n";

#[test]
fn gpus_come_from_variables_and_devices() {
    /// The rest of the step, variables of the command line, the shell's value, and the GPUs.
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a str>, Option<&'a str>);
    let cases: [Case<'_>; 8] = [
        ("", &[], None, None),
        (FOUR, &[], None, Some("4")),
        (FOUR, &[("VH_GPUS", "2")], None, Some("2")),
        (FOUR, &[], Some("3"), Some("3")),
        (FOUR, &[("VH_GPUS", "2")], Some("3"), Some("2")),
        (DEVICES, &[], None, Some("2")),
        (DEVICES, &[("VH_GPUS", "0")], None, Some("0")),
        ("", &[("VH_GPUS", "1"), ("VH_GPUS", "8")], None, Some("8")),
    ];
    for (rest, given, exported, expected) in cases {
        let request = step(rest).request(&pairs(given), exported).unwrap();
        assert_eq!(request.gpus.as_deref(), expected, "{rest} {given:?} {exported:?}");
        assert!(request.variables.iter().all(|(name, _)| name != "VH_GPUS"));
    }
}

#[test]
fn resources_become_requests() {
    let rest = "    time-limit: 1h 30m\n    resources: {cpu: {min: 1.5}, memory: {min: 1024.5}}\n";
    let request = step(rest).request(&[], None).unwrap();
    assert_eq!(request.cpus.as_deref(), Some("1.5"));
    assert_eq!(request.memory.as_deref(), Some("1025M"));
    assert_eq!(request.time.as_deref(), Some("5400s"));
    let cores = |text| step(rest).request(&pairs(&[("VH_CPU_LIMIT", text)]), None);
    assert_eq!(cores("2").unwrap().cpus.as_deref(), Some("2"));
    assert_eq!(cores("0-3,8").unwrap().cpus.as_deref(), Some("5"));
    for wrong in ["x", "3-1", "-1", "1-", "nan"] {
        assert!(cores(wrong).unwrap_err().contains("neither a number nor a list"), "{wrong}");
    }
}

#[test]
fn wrong_requests_say_what_to_write() {
    let refusal =
        |rest: &str, given: &[(&str, &str)]| step(rest).request(&pairs(given), None).unwrap_err();
    assert_eq!(
        refusal("", &[("VH_GPUS", "many")]),
        "VH_GPUS=\"many\" is not a number of GPUs; write VH_GPUS=2"
    );
    assert_eq!(
        refusal("    resources: {devices: {amd.com/gpu: 1}}\n", &[]),
        "line 5: gpool has no devices \"amd.com/gpu\"; use nvidia.com/gpu"
    );
    assert_eq!(
        refusal("    environment-variables: [{name: TOKEN, optional: false}]\n", &[]),
        "line 5: the variable \"TOKEN\" has no value; give --var TOKEN=VALUE"
    );
}

#[test]
fn values_of_the_command_line_have_the_types_of_parameters() {
    let rest = "    parameters:
      - {name: n, type: integer, min: 1, max: 8}
      - {name: x, type: float}
      - {name: b, type: flag}
      - {name: t, choices: [a, b]}
      - {name: m, multiple: repeat}\n";
    let step = step(rest);
    let value = |name: &str, texts: &[&str]| {
        let parameter = step.parameters.iter().find(|it| it.name == name).unwrap();
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        parameter.value(&texts).map(|value| scalar::text(&value))
    };
    let cases: [(&str, &[&str], Result<&str, &str>); 9] = [
        ("n", &["7"], Ok("7")),
        ("n", &["9"], Err("9 is greater than the maximum 8")),
        ("n", &["many"], Err("\"many\" is not a whole number")),
        ("x", &["1e-5"], Ok("1e-05")),
        ("b", &["false"], Ok("False")),
        ("b", &["perhaps"], Err("\"perhaps\" is neither true nor false")),
        ("t", &["c"], Err("c is none of the choices a, b")),
        ("t", &["a", "b"], Err("it has one value, not 2")),
        ("m", &["a", "b"], Ok("['a', 'b']")),
    ];
    for (name, texts, expected) in cases {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(value(name, texts), expected, "{name} {texts:?}");
    }
}

#[test]
fn sources_are_paths_addresses_or_mapped() {
    let prefixes = vec![prefix("s3://bucket=/data").unwrap(), prefix("s3://bucket/a=/a/").unwrap()];
    let path = |text: &str| Ok(Source::Path(text.to_owned()));
    let cases = [
        ("/data/x.csv", path("/data/x.csv")),
        ("file:///data/x.csv", path("/data/x.csv")),
        ("s3://bucket/x/y.csv", path("/data/x/y.csv")),
        ("s3://bucket/a/y.csv", path("/a/y.csv")),
        ("https://h/x", Ok(Source::Web("https://h/x".to_owned()))),
        ("s3://bucket2/x", Err("map it to a folder: --prefix s3://bucket2=/FOLDER")),
        ("datum://latest", Err("datum:// names data in Valohai's service")),
        ("data/x.csv", Err("neither an absolute path nor an address")),
    ];
    for (address, expected) in cases {
        match (find(address, &prefixes), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{address}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{address}: {why}"),
            (found, expected) => panic!("{address}: {found:?}, expected {expected:?}"),
        }
    }
    assert!(prefix("s3://bucket").is_err());
    assert!(prefix("s3://bucket=data").is_err());
}

#[test]
fn scripts_stop_at_the_first_failure() {
    let lines = |of: &[&str]| of.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert_eq!(script(&lines(&["a", " ", "b"])), "#!/bin/bash\nset -e\na\nb\n");
    assert_eq!(script(&lines(&["#!/bin/sh\na"])), "#!/bin/sh\nset -e\na\n");
    assert_eq!(script(&lines(&["#!/usr/bin/env python3\na"])), "#!/usr/bin/env python3\na\n");
}

#[test]
fn keys_have_marks() {
    let text = "- step:\n    name: s\n    image: i\n    command: c\n    icon: x\n    \
                mounts:\n      - {source: /a, destination: /b, type: nfs}\n";
    let keys = Document::read(text).keys;
    let mark = |path: &str| {
        let key = keys.iter().find(|key| key.path == path).unwrap();
        (key.line, key.mark.word())
    };
    assert_eq!(mark("step.name"), (2, "supported"));
    assert_eq!(mark("step.image"), (3, "approximated"));
    assert_eq!(mark("step.icon"), (5, "ignored"));
    assert_eq!(mark("step.mounts.type"), (7, "refused"));
    let task = "- step: {name: s, image: i, command: c}\n\
                - task:\n    name: t\n    step: s\n    type: distributed\n    parameters: []\n\
                \x20   reuse-children: true\n";
    let keys_of_task = Document::read(task).keys;
    let ignored = keys_of_task.iter().filter(|key| matches!(key.mark, Mark::Ignored(_)));
    let ignored: Vec<_> = ignored.map(|key| (key.line, key.path.as_str())).collect();
    assert_eq!(ignored, [(7, "task.reuse-children")]);
    let unexplained = keys.iter().filter(|key| key.mark != Mark::Supported);
    assert!(
        unexplained.clone().count() > 2 && unexplained.clone().all(|it| !it.mark.why().is_empty())
    );
}

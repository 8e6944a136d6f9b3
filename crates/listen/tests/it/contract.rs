//! The API against its document: schemathesis sends allowed and forbidden requests to every route,
//! and compares the answers with the document.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::rig::{ANA, BO, OWNER, Rig, raw, request};
use gpool_api::openapi_json;

fn document() -> Value {
    serde_json::from_str(&openapi_json()).unwrap()
}

/// Every operation with its method and path.
fn operations(document: &Value) -> Vec<(String, &String, &Value)> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            all.push((method.to_uppercase(), path, operation));
        }
    }
    all
}

#[test]
fn every_operation_documents_its_problems() {
    let document = document();
    for (method, path, operation) in operations(&document) {
        let responses = operation["responses"].as_object().unwrap();
        for status in ["400", "415", "429", "431", "500"] {
            assert!(responses.contains_key(status), "{method} {path} lacks {status}");
        }
        let has_body = operation.get("requestBody").is_some();
        for status in ["408", "413"] {
            assert_eq!(responses.contains_key(status), has_body, "{method} {path} {status}");
        }
        for (status, response) in responses.iter().filter(|(status, _)| status.as_str() >= "400") {
            let response = match response["$ref"].as_str() {
                Some(name) => document.pointer(&name[1..]).unwrap(),
                None => response,
            };
            let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
            assert_eq!(schema, "#/components/schemas/Problem", "{method} {path} {status}");
        }
    }
}

/// Takes connections on a loopback port and passes their bytes to a socket, both ways.
fn forward(socket: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for caller in listener.incoming() {
            let (Ok(caller), Ok(server)) = (caller, UnixStream::connect(&socket)) else { return };
            let (to_caller, to_server) = (caller.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                pass_on(caller, &to_server);
                drop(to_server.shutdown(Shutdown::Write));
            });
            std::thread::spawn(move || {
                pass_on(server, &to_caller);
                drop(to_caller.shutdown(Shutdown::Both));
            });
        }
    });
    address
}

fn pass_on(mut from: impl Read, mut to: impl Write) {
    drop(std::io::copy(&mut from, &mut to));
}

/// A path that begins in the folder of this crate.
fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The same requests each time. Most texts have a grammar that a schema can't express, so that
/// what a schema allows may still be refused: that check is left out.
const FLAGS: &[&str] = &[
    "--checks=not_a_server_error,status_code_conformance,content_type_conformance,\
     response_headers_conformance,response_schema_conformance,negative_data_rejection,\
     unsupported_method,allow_header_conformance",
    "--generation-deterministic",
    "--suppress-health-check=all",
    "--continue-on-failure",
    "--request-timeout=20",
    "--warnings=off",
    "--no-color",
];

/// Jobs of every kind: ended, running, waiting, held, an array.
fn submit_some(rig: &mut Rig) {
    let ana = rig.client(ANA);
    for job in [
        json!({"command": ["true"]}),
        json!({"command": ["sleep"], "gpus": "2", "time": "1h"}),
        json!({"command": ["sleep"], "gpus": "2"}),
        json!({"command": ["sleep"], "hold": true}),
        json!({"command": ["sleep"], "array": "0-3", "time": "1h"}),
    ] {
        ana.submit(&serde_json::from_value(job).unwrap(), None).unwrap();
    }
    rig.until("it runs", || ana.job("2").unwrap().state.as_str() == "running");
    rig.until("it ends", || ana.job("1").unwrap().state.as_str() == "succeeded");
    std::fs::write(rig.log("1", "stdout"), "one line\n").unwrap();
    // Of the name of the node, so that one name is there of each kind.
    let owner = rig.socket(OWNER);
    let window = r#"{"name":"lab1","user":"1001","devices":["lab1:1"],"for":"48h"}"#;
    for (path, body) in [("reservations", window), ("projects", r#"{"name":"lab1"}"#)] {
        let answer = raw(&owner, &request("POST", &format!("/api/v1/{path}"), body));
        assert_eq!(answer.0, 200, "{answer:?}");
    }
}

#[test]
fn an_answer_without_an_end_and_the_last_one_are_those_of_the_document() {
    let mut rig = Rig::new();
    submit_some(&mut rig);
    let (socket, document) = (rig.socket(OWNER), document());
    for (path, query) in [("/api/v1/events", ""), ("/api/v1/jobs/{id}/logs", "?follow=true")] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        let target = format!("{}{query}", path.replace("{id}", "2"));
        stream.write_all(request("GET", &target, "").as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.starts_with("http/1.1 200 "), "{head}");
        let kind = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap();
        let content = &document["paths"][path]["get"]["responses"]["200"]["content"];
        let known: Vec<&String> = content.as_object().unwrap().keys().collect();
        assert_eq!(known, [kind.split(';').next().unwrap()], "{path}");
    }
    let (status, _, body) = raw(&socket, &request("POST", "/api/v1/shutdown", "{}"));
    assert_eq!((status, &*body), (202, ""));
    let answer = &document["paths"]["/api/v1/shutdown"]["post"]["responses"]["202"];
    assert!(answer.is_object() && answer.get("content").is_none(), "{answer}");
}

#[test]
fn answers_are_those_of_the_document() {
    // Where `cargo xtask test` installs it.
    let program = here("../../target/schemathesis/bin/schemathesis");
    if !program.exists() {
        let mut stderr = std::io::stderr();
        writeln!(stderr, "SKIPPED: no schemathesis; cargo xtask test installs it").unwrap();
        return;
    }
    let mut rig = Rig::new();
    submit_some(&mut rig);
    let schema = rig.folder.path().join("openapi.json");
    std::fs::write(&schema, openapi_json()).unwrap();
    // An admin first, then an ordinary user with fewer rights.
    for (uid, phases, examples) in [(OWNER, "examples,coverage,fuzzing", 15), (BO, "fuzzing", 5)] {
        let address = forward(rig.socket(uid));
        let ran = Command::new(&program)
            .arg("run")
            .arg(&schema)
            .arg(format!("--url=http://{address}"))
            .arg(format!("--phases={phases}"))
            .arg(format!("--max-examples={examples}"))
            .args(["--exclude-operation-id=shutdown", "--exclude-operation-id=events_stream"])
            .args(FLAGS)
            .current_dir(rig.folder.path())
            .env("SCHEMATHESIS_HOOKS", here("tests/schemathesis/hooks.py"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        println!("{}", String::from_utf8_lossy(&ran.stdout));
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
    // The server lives, and nothing of it was stuck.
    let (status, _, _) = raw(&rig.socket(OWNER), &request("GET", "/readyz", ""));
    assert_eq!(status, 200);
}

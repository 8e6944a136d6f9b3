//! The routes of agents on other machines: what a certificate allows, and what nothing allows.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gpool_client::{Address, Client, Error, Identity, Remote, Trust};
use gpool_protocol::{Decoder, Hello, ToAgent, ToServer, VERSION, encode};
use gpool_wire::JobCreate;
use gpool_wire::join::{AddNode, CertificateRequest, NodeInvitation};
use gpool_wire::secret::SecretValue;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use std::io::{Read as _, Write as _};

use crate::network::Network;
use crate::rig::{OWNER, me};

/// The key of a machine, in PKCS #8, and its public key in Base64.
fn key() -> (Vec<u8>, String) {
    let rng = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &rng).unwrap();
    let pkcs8 = pkcs8.as_ref().to_vec();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pkcs8, &rng).unwrap();
    let public = BASE64_STANDARD.encode(pair.public_key().as_ref());
    (pkcs8, public)
}

struct Machines {
    net: Network,
    trust: Trust,
}

impl Machines {
    fn new() -> Self {
        let net = Network::new();
        let address = Address::read(&format!("127.0.0.1:{}", net.port)).unwrap();
        let trust = Trust::pinned(address.certificates().unwrap().last().unwrap());
        Self { net, trust }
    }

    fn invite(&mut self, name: &str) -> NodeInvitation {
        let asked = AddNode { name: name.to_owned(), expires: None };
        self.net.rig.client(OWNER).add_node(&asked).unwrap()
    }

    fn client(&self, identity: Option<Identity>) -> Client {
        let address = Address::read(&format!("127.0.0.1:{}", self.net.port)).unwrap();
        let identity = identity.map(Into::into);
        let remote = Remote::new(address, String::new(), self.trust.clone());
        let client = Client::remote(Remote { identity, ..remote });
        client.with_retries(std::time::Duration::ZERO)
    }

    /// Joins as a node; returns what proves the machine.
    fn join(&mut self, name: &str) -> Identity {
        let token = self.invite(name).token.split('@').next().map(str::to_owned);
        let (key, public_key) = key();
        let asked = CertificateRequest { token, public_key };
        let issued = self.client(None).agent_certificate(&asked).unwrap();
        assert_eq!(issued.node, name);
        Identity { certificate: BASE64_STANDARD.decode(&issued.certificate).unwrap(), key }
    }
}

fn code<T>(result: Result<T, Error>) -> String {
    result.err().unwrap().problem().code
}

#[test]
fn without_a_certificate_no_route_of_agents_answers() {
    let mut machines = Machines::new();
    let nobody = machines.client(None);
    let (_, public_key) = key();
    let token = |token: Option<&str>| CertificateRequest {
        token: token.map(str::to_owned),
        public_key: public_key.clone(),
    };
    assert_eq!(code(nobody.agent_certificate(&token(None))), "GP0531");
    assert_eq!(code(nobody.agent_certificate(&token(Some("gn_guess")))), "GP0531");
    assert_eq!(code(nobody.agent_check()), "GP0531");
    assert_eq!(code(nobody.agent_messages()), "GP0531");
    assert_eq!(code(nobody.agent_stream(1)), "GP0531");
    assert_eq!(code(nobody.agent_blob("00")), "GP0531");
    assert_eq!(code(nobody.agent_secret("1", "TOKEN")), "GP0531");
    // A user's token is no certificate of a machine, and a certificate no token of a user.
    let (_, secret) = machines.net.token(OWNER, gpool_wire::Scope::Admin, None);
    assert_eq!(code(machines.net.client(&secret).agent_messages()), "GP0531");
    let identity = machines.join("lab2");
    let agent = machines.client(Some(identity));
    agent.agent_check().unwrap();
    assert_eq!(code(agent.status()), "GP0531");
    let filter = gpool_client::AuditQuery::default();
    let audit = machines.net.rig.client(OWNER).audit(&filter).unwrap().items;
    let joined = audit.iter().find(|entry| entry.action == "join as a node").unwrap();
    assert_eq!((&*joined.objects, &*joined.origin), (&["nodes/lab2".to_owned()][..], "127.0.0.1"));
    // A key that is none is refused, and the token stays valid.
    let invitation = machines.invite("lab3");
    let (secret, _) = invitation.token.split_once('@').unwrap();
    let bad = CertificateRequest {
        token: Some(secret.to_owned()),
        public_key: BASE64_STANDARD.encode([4; 64]),
    };
    assert_eq!(code(nobody.agent_certificate(&bad)), "GP0101");
    nobody.agent_certificate(&token(Some(secret))).unwrap();
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let machines = Machines::new();
    let mut others = Machines::new();
    let identity = others.join("lab2");
    // The handshake fails.
    let refused = machines.client(Some(identity)).agent_messages().err().unwrap();
    assert!(!matches!(refused, Error::Problem(_)), "{refused}");
}

#[test]
fn a_machine_speaks_for_its_own_node_only() {
    let mut machines = Machines::new();
    let identity = machines.join("lab2");
    let agent = machines.client(Some(identity));
    let welcome = |node: &str| {
        let mut stream = agent.agent_messages().unwrap().stream;
        let hello = Hello {
            version: VERSION,
            release: String::new(),
            node: gpool_model::NodeName::new(node),
            incarnation: gpool_model::Incarnation::new("one"),
        };
        stream.write_all(&encode(&ToServer::Hello(hello)).unwrap()).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
        let (mut decoder, mut bytes) = (Decoder::default(), [0; 4096]);
        while let Ok(n_read @ 1..) = stream.read(&mut bytes) {
            decoder.push(&bytes[..n_read]);
            if let Some(message) = decoder.next_message::<ToAgent>().unwrap() {
                return matches!(message, ToAgent::Welcome { .. });
            }
        }
        false
    };
    assert!(!welcome("lab1"), "this is the server's own node");
    assert!(welcome("lab2"));
}

#[test]
fn a_machine_reads_no_environment_of_jobs_elsewhere() {
    let mut machines = Machines::new();
    let identity = machines.join("lab2");
    let job = JobCreate { command: vec!["true".to_owned()], ..JobCreate::default() };
    machines.net.rig.client(me()).submit(&job, None).unwrap();
    let folder = machines.net.rig.folder.path().join("state/blobs");
    let names = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
    let blobs: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    assert!(!blobs.is_empty());
    let agent = machines.client(Some(identity));
    for blob in blobs {
        assert_eq!(code(agent.agent_blob(&blob)), "GP0105", "{blob}");
    }
}

#[test]
fn a_machine_reads_no_secret_of_jobs_elsewhere() {
    let mut machines = Machines::new();
    let identity = machines.join("lab2");
    let client = machines.net.rig.client(me());
    let value = SecretValue { value: Some("canary".to_owned()), base64: None };
    client.set_secret("TOKEN", &value).unwrap();
    let secrets = vec!["TOKEN".to_owned()];
    let job = JobCreate { command: vec!["sleep".to_owned()], secrets, ..JobCreate::default() };
    let id = client.submit(&job, None).unwrap().id;
    let runs = || client.job(&id).unwrap().state.as_str() == "running";
    machines.net.rig.until("it runs on the server's node", runs);
    let agent = machines.client(Some(identity));
    for (job, name) in [(&*id, "TOKEN"), (&id, "OTHER"), ("9", "TOKEN"), (&id, "../0.TOKEN")] {
        assert_eq!(code(agent.agent_secret(job, name)), "GP0105", "{job} {name}");
    }
    assert_eq!(code(agent.agent_secret("x", "TOKEN")), "GP0101");
}

#[test]
fn a_new_certificate_replaces_the_old_one_once_it_is_used() {
    let mut machines = Machines::new();
    let first = machines.join("lab2");
    let renew = |identity: &Identity| {
        let (key, public_key) = key();
        let asked = CertificateRequest { token: None, public_key };
        let issued = machines.client(Some(identity.clone())).agent_certificate(&asked)?;
        let certificate = BASE64_STANDARD.decode(&issued.certificate).unwrap();
        Ok::<_, Error>(Identity { certificate, key })
    };
    // Answers may be lost: the old one stays valid, however often it asks for the next.
    let lost = renew(&first).unwrap();
    renew(&first).unwrap();
    let second = renew(&first).unwrap();
    assert_eq!(code(renew(&lost)), "GP0531");
    renew(&second).unwrap();
    assert_eq!(code(renew(&first)), "GP0531");
}

//! Listeners that can't be opened do not keep the server from starting: it works without them and
//! opens them when it can.

use std::net::{SocketAddr, TcpListener};

use crate::harness::{Cluster, until, until_so, write_private};
use crate::http::Http;

/// A cluster that has not started, with these settings.
fn unstarted(settings: &str, flags: &[&str]) -> Cluster {
    let mut cluster = Cluster::unstarted(&[&["--devices", "none"], flags].concat());
    let config = cluster.path("gpool.toml");
    std::fs::write(&config, settings).unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), config.display().to_string()));
    cluster
}

/// A port that another process has.
fn taken() -> (TcpListener, SocketAddr) {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = other.local_addr().unwrap();
    (other, at)
}

/// Checks that status, doctor, metrics and log show why a listener is not open.
fn alarm_says(cluster: &Cluster, listener: &str, words: &str) {
    let metrics = Http::new(cluster).get("/metrics").body;
    let doctor = cluster.gpool(["doctor"]);
    for (from, text) in [
        ("status", cluster.gpool(["status"]).ok()),
        ("doctor", doctor.out.clone()),
        ("log", cluster.log()),
    ] {
        assert!(text.contains(words), "{from}: {text}");
    }
    assert_eq!(doctor.code, 1);
    assert!(metrics.contains(&format!("gpool_listener_open{{listener=\"{listener}\"}} 0")));
}

fn until_open(cluster: &Cluster, listener: &str) {
    let open = format!("gpool_listener_open{{listener=\"{listener}\"}} 1");
    until_so("it is open", || Http::new(cluster).get("/metrics").body.contains(&open));
}

#[test]
fn the_server_starts_while_another_process_has_the_port_of_its_dashboard() {
    let (other, at) = taken();
    let mut cluster = unstarted(&format!("web = \"{at}\""), &[]);
    cluster.up();
    let words = format!("can't listen on {at} for the dashboard: Address already in use");
    alarm_says(&cluster, "dashboard", &words);
    let id = cluster.sh(&[], "exit 3");
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(3));
    cluster.gpool(["open", "--print"]).refused(1, &["Address already in use"]);
    drop(other);
    until_open(&cluster, "dashboard");
    let status = cluster.client().status().unwrap();
    assert_eq!((status.web, status.web_fault), (Some(format!("http://{at}/")), None));
    until("the dashboard answers", || std::net::TcpStream::connect(at).ok());
    // It is taken while the server is down, as in an upgrade.
    cluster.down(&[]);
    let other = TcpListener::bind(at).unwrap();
    cluster.up();
    alarm_says(&cluster, "dashboard", &words);
    drop(other);
    until_open(&cluster, "dashboard");
    // With the port taken to the end, the server also stops.
    cluster.down(&[]);
    let _other = TcpListener::bind(at).unwrap();
    cluster.up();
    cluster.down(&[]);
}

/// A browser may take either address for a name below `localhost`, and another user's program on
/// the other one would be of the same origin as the dashboard.
#[test]
fn the_dashboard_has_its_port_on_both_loopback_addresses() {
    let (other, at) = taken();
    drop(other);
    let beside = SocketAddr::new("::1".parse().unwrap(), at.port());
    let Ok(other) = TcpListener::bind(beside) else {
        return eprintln!("skipped: there is no ::1");
    };
    let mut cluster = unstarted(&format!("web = \"{at}\""), &[]);
    cluster.up();
    let words = format!("browsers may take {beside} for it: Address already in use");
    alarm_says(&cluster, "dashboard", &words);
    cluster.gpool(["open", "--print"]).refused(1, &["Address already in use"]);
    drop(other);
    until_open(&cluster, "dashboard");
    assert_eq!(TcpListener::bind(beside).unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
    let mut stream = std::net::TcpStream::connect(beside).unwrap();
    let request =
        format!("GET /wall HTTP/1.1\r\nhost: [::1]:{}\r\nconnection: close\r\n\r\n", at.port());
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let answer = std::io::read_to_string(stream).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    cluster.down(&[]);
    // Without a setting it takes a port that is free on both.
    let usual_port = TcpListener::bind("[::1]:7478");
    let mut usual = unstarted("", &[]);
    usual.up();
    let url = usual.client().status().unwrap().web.unwrap();
    let port: u16 = url.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
    // If another server had it, that one may have ended meanwhile.
    assert!(usual_port.is_err() || port != 7478);
    assert!(TcpListener::bind(("::1", port)).is_err());
}

#[test]
fn the_server_starts_while_another_process_has_its_port_of_the_network() {
    let (other, at) = taken();
    let mut cluster = unstarted("", &["--listen", &at.to_string()]);
    cluster.up();
    alarm_says(&cluster, "network", &format!("can't listen on {at}: Address already in use"));
    let id = cluster.sh(&[], "exit 3");
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(3));
    drop(other);
    until_open(&cluster, "network");
    let shown = cluster.gpool(["ca", "show", "--json"]).json();
    assert_eq!(shown["listen"].as_str(), Some(at.to_string().as_str()), "{shown}");
}

#[test]
fn an_address_that_no_interface_has_is_tried_again() {
    // Reserved for documentation (RFC 5737).
    let mut cluster = unstarted("", &["--listen", "192.0.2.1:7443"]);
    cluster.up();
    alarm_says(&cluster, "network", "can't listen on 192.0.2.1:7443: Cannot assign");
    cluster.down(&[]);
}

#[test]
fn a_certificate_that_can_not_be_read_is_tried_again_and_a_missing_one_is_refused() {
    let mut cluster = unstarted("", &[]);
    let (chain, key) = (cluster.path("chain.pem"), cluster.path("key.pem"));
    let [chain_shown, key_shown] = [&chain, &key].map(|path| path.display().to_string());
    let (other, at) = taken();
    drop(other);
    let listen = at.to_string();
    let flags = ["--listen", &listen, "--tls-certificate", &chain_shown, "--tls-key", &key_shown];
    cluster.set_flags(&[&["--devices", "none"], &flags[..]].concat());
    let refused = [&["up", "--foreground", "--devices", "none"], &flags[..]].concat();
    let ran = cluster.gpool(refused);
    assert!(ran.code == 1 && ran.err.contains(&chain_shown), "{ran:?}");
    // As while another program writes them.
    std::fs::write(&chain, "").unwrap();
    write_private(&key, "");
    cluster.up();
    alarm_says(&cluster, "network", &chain_shown);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    std::fs::write(&chain, made.cert.pem()).unwrap();
    until_open(&cluster, "network");
}

#[test]
fn a_wrong_address_in_the_settings_is_refused_at_the_start() {
    for settings in ["web = \"127.0.0.1\"", "web = \"192.0.2.1:80\"", "listen = \"lab1:7443\""] {
        let cluster = unstarted(settings, &[]);
        let mut command = cluster.command();
        command.args(["up", "--foreground", "--devices", "none"]);
        command.envs(cluster.variables.iter().cloned());
        let ran = crate::harness::Running::start(&mut command, None).end();
        assert!(ran.code != 0 && ran.err.contains("error:"), "{settings}: {ran:?}");
    }
}

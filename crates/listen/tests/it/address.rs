//! Where messages may go. The server sends them on behalf of users, and it may run as root. So
//! addresses inside the machine or network, and those that hand out credentials in clouds, need an
//! admin's permission. A name is resolved once, here, and the request goes to the checked address,
//! so the name can't change to another address in between (DNS rebinding).

use std::net::SocketAddr;

use gpool_listen::testing::Guarded;
use gpool_server::Allowed;

fn guard(allow: &[&str]) -> Guarded {
    let allow = allow.iter().map(|it| it.parse().expect("valid")).collect();
    Guarded::new(Some(allow))
}

fn asks(guard: &Guarded, host: &str, ip: &str) -> bool {
    guard.may_ask(host, SocketAddr::new(ip.parse().expect("an address"), 80))
}

#[test]
fn users_reach_nothing_inside_the_machine() {
    let guard = guard(&[]);
    for ip in [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "100.100.100.200",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "ff02::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::127.0.0.1",
        "64:ff9b:1::8.8.8.8",
        "64:ff9b:1:7f00:0:100::",
        "2002:7f00:1::",
        "2002:7f00:1::1",
        "2002:a9fe:a9fe::1",
        // Teredo of the client 127.0.0.1, and by the server 127.0.0.1.
        "2001:0:808:808::80ff:fffe",
        "2001:0:7f00:1::f7f7:f7f7",
        "2001:db8::5efe:127.0.0.1",
        "2001:db8::200:5efe:169.254.169.254",
        "fe80::5efe:8.8.8.8",
        "192.0.0.192",
        "240.0.0.1",
        "168.63.129.16",
        "100.100.100.100",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "fd00:42::42",
    ] {
        assert!(!asks(&guard, "x", ip), "{ip}");
    }
    for ip in [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "198.18.0.1",
        "fd12:3456::1",
        "8.8.8.8",
        "2001:db8::1",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "::ffff:10.0.0.1",
        "64:ff9b::808:808",
        "64:ff9b::10.0.0.1",
        "2002:808:808::1",
        "2002:a00:1::1",
        "2001:db8::5efe:10.0.0.1",
        "2001:0:808:808::f7f7:f7f7",
    ] {
        assert!(asks(&guard, "x", ip), "{ip}");
    }
    assert!(asks(&Guarded::new(None), "x", "127.0.0.1"), "admins do");
}

#[test]
fn what_is_allowed_is_a_host_or_a_range() {
    let some = guard(&["127.0.0.0/31", "Hooks.Lab", "fe80::/10"]);
    assert!(asks(&some, "x", "127.0.0.1") && asks(&some, "x", "::ffff:127.0.0.1"));
    assert!(!asks(&some, "x", "127.0.0.2"));
    assert!(asks(&some, "hooks.lab", "127.0.0.2") && asks(&some, "x", "fe80::7"));
    assert!(asks(&guard(&["0.0.0.0/0"]), "x", "169.254.169.254"));
    assert!(asks(&guard(&["::/0"]), "x", "::1"));
    let home = guard(&["127.0.0.1"]);
    assert!(asks(&home, "x", "2002:7f00:1::1"), "it stands for what is allowed");
    assert!(!asks(&home, "x", "2001:0:7f00:1::80ff:fffd"), "each that it stands for counts");
    for text in ["", "a b", "127.0.0.1/33", "::1/129", "a/8", "127.0.0.0/x", "http://x"] {
        assert!(text.parse::<Allowed>().is_err(), "{text}");
    }
}

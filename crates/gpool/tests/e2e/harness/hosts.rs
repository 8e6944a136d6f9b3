//! Several hosts on one machine: each is a network namespace with an address of its own, and a
//! bridge joins them. Only root can make them.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{is_root, skip};

/// A fault of the network of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// All packets are lost, and no end hears of it: a switch failed.
    Unheard,
    /// The host sees that its link is down, and has no routes.
    LinkDown,
    /// Packets from the host arrive, and none to it.
    Inward,
    /// Packets to the host arrive, and none from it.
    Outward,
}

impl Cut {
    pub const ALL: [Self; 4] = [Self::Unheard, Self::LinkDown, Self::Inward, Self::Outward];
}

/// The hosts, which end with this value.
pub struct Hosts {
    /// Begins the names of all interfaces; they may have 15 characters.
    prefix: String,
    names: Vec<String>,
}

/// Runs a command of the system; returns whether it succeeded.
fn runs(words: &[&str]) -> bool {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[track_caller]
fn must(words: &[&str]) {
    assert!(runs(words), "{words:?}");
}

impl Hosts {
    /// Makes hosts with these names; `None` where that is not possible, with the reason as text.
    pub fn new(names: &[&str]) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);

        if !is_root() {
            skip("only root makes network namespaces");
            return None;
        }
        let letter = u8::try_from(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap() + b'a';
        let prefix = format!("g{}{}", std::process::id() % 100_000, char::from(letter));
        let hosts = Self { prefix, names: names.iter().map(|name| (*name).to_owned()).collect() };
        if !runs(&["ip", "link", "add", &hosts.bridge(), "type", "bridge"]) {
            skip("this machine makes no network namespaces: `ip link add` does not work");
            return None;
        }
        must(&["ip", "link", "set", &hosts.bridge(), "up"]);
        for name in names {
            let (space, outside) = (hosts.space(name), hosts.outside(name));
            must(&["ip", "netns", "add", &space]);
            must(&["ip", "-n", &space, "link", "set", "lo", "up"]);
            let peer = ["type", "veth", "peer", "name", "eth0", "netns", &space];
            must(&[&["ip", "link", "add", &outside][..], &peer].concat());
            must(&["ip", "link", "set", &outside, "master", &hosts.bridge(), "up"]);
            hosts.give_address(name, hosts.address(name));
        }
        Some(hosts)
    }

    fn bridge(&self) -> String {
        format!("{}br", self.prefix)
    }

    fn space(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn outside(&self, name: &str) -> String {
        format!("{}v{name}", self.prefix)
    }

    fn position(&self, name: &str) -> usize {
        self.names.iter().position(|it| it == name).unwrap()
    }

    /// The first address of a host.
    pub fn address(&self, name: &str) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, u8::try_from(self.position(name) + 1).unwrap())
    }

    /// Gives a host this address in place of the present one.
    pub fn give_address(&self, name: &str, address: Ipv4Addr) {
        let space = self.space(name);
        must(&["ip", "-n", &space, "addr", "flush", "dev", "eth0"]);
        must(&["ip", "-n", &space, "addr", "add", &format!("{address}/24"), "dev", "eth0"]);
        must(&["ip", "-n", &space, "link", "set", "eth0", "up"]);
    }

    /// The path of the network namespace of a host.
    pub fn network_of(&self, name: &str) -> String {
        format!("/run/netns/{}", self.space(name))
    }

    /// The words before a command that runs on a host.
    pub fn on(&self, name: &str) -> Vec<String> {
        let space = format!("--net={}", self.network_of(name));
        vec!["nsenter".to_owned(), space, "--".to_owned()]
    }

    /// Cuts a host off; returns whether this machine can.
    pub fn cut(&self, name: &str, cut: Cut) -> bool {
        let (space, outside) = (self.space(name), self.outside(name));
        let (hook, interface) = match cut {
            Cut::Unheard => return runs(&["ip", "link", "set", &outside, "nomaster"]),
            Cut::LinkDown => return runs(&["ip", "-n", &space, "link", "set", "eth0", "down"]),
            Cut::Inward => ("input", "iifname"),
            Cut::Outward => ("output", "oifname"),
        };
        let rule = format!(
            "add table inet cut; add chain inet cut lost {{ type filter hook {hook} priority 0; \
             policy drop; }}; add rule inet cut lost meta {interface} lo accept"
        );
        runs(&["ip", "netns", "exec", &space, "nft", &rule])
    }

    /// Makes the link of a host slow: bits a second.
    pub fn slow_down(&self, name: &str, rate: &str) -> bool {
        let queue = ["root", "tbf", "rate", rate, "burst", "10k", "latency", "400ms"];
        let words = ["ip", "netns", "exec", &self.space(name), "tc", "qdisc", "add", "dev", "eth0"];
        runs(&[&words[..], &queue].concat())
    }

    /// Every process of a host.
    pub fn processes(&self, name: &str) -> Vec<u32> {
        let list = Command::new("ip").args(["netns", "pids", &self.space(name)]).output().unwrap();
        let text = String::from_utf8(list.stdout).unwrap();
        text.lines().map(|pid| pid.parse().unwrap()).collect()
    }

    /// Ends every fault of a host.
    pub fn heal(&self, name: &str) {
        let (space, outside) = (self.space(name), self.outside(name));
        must(&["ip", "link", "set", &outside, "master", &self.bridge(), "up"]);
        must(&["ip", "-n", &space, "link", "set", "eth0", "up"]);
        // There may be none of these.
        runs(&["ip", "netns", "exec", &space, "nft", "delete table inet cut"]);
        runs(&["ip", "netns", "exec", &space, "tc", "qdisc", "del", "dev", "eth0", "root"]);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            // The interfaces of a namespace end with it, and the last process in it.
            runs(&["ip", "link", "del", &self.outside(name)]);
            runs(&["ip", "netns", "del", &self.space(name)]);
        }
        runs(&["ip", "link", "del", &self.bridge()]);
    }
}

//! Where the tasks of a gang meet.

use gpool_model::agent::{Order, Report};
use gpool_model::*;

use crate::harness::{Harness, inventory, job, tasks};

/// The addresses at which the tasks of a gang on two nodes meet, by node. Both nodes are of one run
/// of a kernel, as containers of one machine are.
fn meeting_points(addresses: [&str; 2]) -> Vec<(String, String)> {
    let mut harness = Harness::new(1);
    let at = |address: &str| {
        let mut report = inventory(1);
        let Report::Inventory { stamp, devices, facts, .. } = &mut report else {
            panic!("an inventory is one")
        };
        stamp.sequence = 100;
        for device in devices {
            device.uuid = DeviceUuid::new(format!("{}-{address}", device.uuid.as_str()));
        }
        address.clone_into(&mut facts.address);
        report
    };
    for (name, address) in ["lab1", "lab2"].into_iter().zip(addresses) {
        let node = NodeName::new(name);
        harness.step(vec![Event::Reported { node: node.clone(), report: at(address) }]);
        let (term, mut report) = (harness.term(), tasks(harness.term(), vec![]));
        let Report::Tasks { stamp, .. } = &mut report else { panic!("{term}") };
        stamp.sequence = 101;
        harness.step(vec![Event::Reported { node, report }]);
    }
    harness.orders.clear();
    harness.add(job("1").with(|it| it.gang = Gang::new(2, 1).expect("two nodes")));
    let runs = harness.take_orders().into_iter().filter_map(|order| match order {
        Order::Run(run) => Some((run.allocation.node.to_string(), run.master_addr)),
        _ => None,
    });
    runs.collect()
}

#[test]
fn a_gang_meets_at_the_address_of_its_first_node() {
    let pairs = |addresses: [&str; 2], other: &str| {
        let met = meeting_points(addresses);
        let first = met[0].0.clone();
        assert_eq!(met.len(), 2, "{met:?}");
        let of_first = if first == "lab1" { addresses[0] } else { addresses[1] };
        let other = if other == "the first" { of_first } else { other };
        assert_eq!((&*met[0].1, &*met[1].1), ("127.0.0.1", other), "{met:?}");
    };
    pairs(["10.0.0.1", "10.0.0.2"], "the first");
    pairs(["10.0.0.1", "10.0.0.1"], "127.0.0.1");
    // Without an address, one run of a kernel is one machine.
    pairs(["", "10.0.0.2"], "127.0.0.1");
}

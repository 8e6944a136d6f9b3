//! The links between devices: their common ancestor on the bus according to the driver, and NVLink,
//! direct or through switches.

use gpool_device::testing::bus_key;

#[test]
fn a_bus_has_one_spelling() {
    assert_eq!(bus_key("00000000:1B:00.0"), "0000:1b:00.0");
    assert_eq!(bus_key("0000:1B:00.0"), "0000:1b:00.0");
    assert_eq!(bus_key("00010000:01:00.0"), "00010000:01:00.0", "domains of 32 bits stay");
    assert_eq!(bus_key(""), "");
}

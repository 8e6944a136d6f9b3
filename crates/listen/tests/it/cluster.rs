//! Routes of devices, nodes, policy, and the server itself.

use gpool_listen::testing::devices_of;

#[test]
fn a_list_of_devices_is_written_out_and_never_longer_than_a_node() {
    let devices = |written: &[&str]| {
        devices_of(&written.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    };
    let words = ["GPU-1-2", "0", "1", "2"].map(str::to_owned);
    assert_eq!(devices(&["GPU-1-2", "0-2"]), Ok(Some(words.to_vec())));
    assert_eq!(devices(&["all"]), Ok(None));
    assert!(devices(&["2-1"]).is_err());
    assert!(devices(&["0-4095"]).is_ok());
    assert!(devices(&["0-4095", "0-4095"]).is_err());
}

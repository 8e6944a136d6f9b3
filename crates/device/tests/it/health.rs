//! Faults that a device reports: events since the agent started, memory errors, and memory rows
//! that wait for a replacement. Faults of programs do not count.

use gpool_device::testing::judge;
use gpool_model::xid;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;

#[test]
fn only_faults_of_the_device_make_it_unhealthy() {
    let xid = EventTypes::CRITICAL_XID_ERROR;
    for number in xid::OF_PROGRAMS {
        assert_eq!(judge(xid, Some(&XidError::Value(number))), None, "{number}");
    }
    assert_eq!(judge(xid, Some(&XidError::Value(79))), Some("Xid 79".into()));
    assert!(judge(xid, Some(&XidError::Unknown)).is_some());
    assert!(judge(EventTypes::DOUBLE_BIT_ECC_ERROR, None).is_some());
    assert!(judge(EventTypes::empty(), None).is_some(), "a kind that the wrapper does not define");
    assert_eq!(judge(EventTypes::PSTATE_CHANGE, None), None);
}

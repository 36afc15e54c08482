//! Zonal shifts on the wire.

use jiff::Timestamp;
use karpenter_aws_api::Kind;
use karpenter_aws_api::shift::Shift;
use mockito::Matcher;

use super::super::Retries;
use super::support::Wire;

const CLUSTER: &str = "arn:aws:eks:us-west-2:123456789012:cluster/demo";
const PATH: &str = "/managedresources/arn%3Aaws%3Aeks%3Aus-west-2%3A123456789012%3Acluster%2Fdemo";

async fn answer(wire: &mut Wire, status: usize, json: &str) -> karpenter_aws_api::Result<Vec<Shift>> {
    let asked = wire.server.mock("GET", Matcher::Exact(PATH.to_owned()));
    let asked = asked.with_status(status).with_header("content-type", "application/json").with_body(json);
    let asked = asked.create_async().await;
    let answer = wire.clients.shifts.shifts(&CLUSTER.into()).await;
    asked.assert_async().await;
    answer
}

#[tokio::test]
async fn shifts_by_hand_end_by_themselves_and_those_of_aws_do_not() {
    let mut wire = Wire::new(Retries::Never).await;
    let json = r#"{
        "arn": "arn:aws:eks:us-west-2:123456789012:cluster/demo", "name": "demo",
        "appliedWeights": {"usw2-az1": 0.0, "usw2-az2": 1.0},
        "zonalShifts": [
            {"appliedStatus": "APPLIED", "zonalShiftId": "1", "resourceIdentifier": "demo", "awayFrom": "usw2-az1",
             "expiryTime": 1767276000, "startTime": 1767268800, "comment": ""},
            {"appliedStatus": "NOT_APPLIED", "zonalShiftId": "2", "resourceIdentifier": "demo", "awayFrom": "usw2-az3",
             "expiryTime": 1767276000, "startTime": 1767268800, "comment": ""}
        ],
        "autoshifts": [{"appliedStatus": "APPLIED", "awayFrom": "usw2-az2", "startTime": 1767268800}]
    }"#;
    let shifts = answer(&mut wire, 200, json).await.unwrap();
    let end: Timestamp = "2026-01-01T14:00:00Z".parse().unwrap();
    let shift = |zone: &str, applied, expires| Shift { away_from: zone.into(), applied, expires };
    assert_eq!(
        shifts,
        [
            shift("usw2-az1", true, Some(end)),
            shift("usw2-az3", false, Some(end)),
            shift("usw2-az2", true, None)
        ]
    );
    let active = |now: &str| shifts.iter().filter(|shift| shift.is_active(now.parse().unwrap())).count();
    assert_eq!((active("2026-01-01T13:59:59Z"), active("2026-01-01T14:00:00Z")), (2, 1));
}

#[tokio::test]
async fn a_resource_that_is_not_registered_is_not_found() {
    let mut wire = Wire::new(Retries::Never).await;
    let json = r#"{"__type": "ResourceNotFoundException", "message": "no such resource"}"#;
    let error = answer(&mut wire, 404, json).await.unwrap_err();
    assert_eq!(
        (error.kind, error.operation, error.subject.as_str()),
        (Kind::NotFound, "GetManagedResource", CLUSTER)
    );
}

#[tokio::test]
async fn a_shift_without_zone_is_an_error_and_not_no_shift() {
    let mut wire = Wire::new(Retries::Never).await;
    let json = r#"{"appliedWeights": {}, "zonalShifts": [],
        "autoshifts": [{"appliedStatus": "APPLIED", "startTime": 1767268800}]}"#;
    let error = answer(&mut wire, 200, json).await.unwrap_err();
    assert!(error.to_string().contains("awayFrom"), "{error}");
}

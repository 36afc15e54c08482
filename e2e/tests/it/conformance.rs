//! The conformance suite of `aws-api` on the emulated account: the in-memory account passes the same checks, so
//! the two fakes, written by different hands, agree about AWS.

use std::time::Duration;

use karpenter_aws_api::conformance::{Reserved, Subject, run};
use karpenter_aws_sdk::{Config, Credentials, connect};
use karpenter_e2e::account::control::NewReservation;
use karpenter_e2e::account::moto::{MotoAccount, Options};

#[tokio::test(flavor = "multi_thread")]
async fn the_emulated_account_keeps_every_promise_the_one_in_memory_keeps() {
    let options = Options { cluster: Some("conformance".to_owned()), ..Options::default() };
    let account = MotoAccount::start(options).await.expect("the account starts");
    let seeded = account.seeded().expect("it was asked for").clone();
    let config = Config {
        region: Some(seeded.region.clone()),
        endpoint_url: Some(account.endpoint().to_owned()),
        credentials: Credentials::Emulator,
        ..Config::default()
    };
    let clients = connect(config).await.expect("the clients are built");
    let path = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let image = clients.ssm.get_parameter(path).await.expect("the parameter exists");
    let group = seeded.cluster_security_group.as_deref().expect("EKS made it");
    let control = account.control();
    let one = NewReservation::of("m5.large", &seeded.zones[0], 1);
    let reserved = Reserved {
        reservation: control.reserve(&one).await.expect("it is bought").as_str().into(),
        placement_group: "rack".to_owned(),
    };
    control.partition_group("rack", 3).await.expect("it is made");
    let subject = Subject {
        clients,
        prefix: "conformance".to_owned(),
        subnet: seeded.private_subnets[0].as_str().into(),
        security_group: group.into(),
        image: image.as_str().into(),
        types: ["m5.large".into(), "m5.xlarge".into()],
        cluster: Some("conformance".to_owned()),
        reserved: Some(reserved),
        pass_time: Box::new(|| Box::pin(tokio::time::sleep(Duration::from_secs(3)))),
    };
    let violations = run(&subject, &[]).await;
    assert!(violations.is_empty(), "{violations:#?}");
    account.stop().await.expect("it ends");
}

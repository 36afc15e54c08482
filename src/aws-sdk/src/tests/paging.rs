//! Listings are complete or an error, and half an entry is never a whole one.

use std::sync::atomic::{AtomicUsize, Ordering};

use mockito::Matcher;

use super::super::Retries;
use super::support::{Wire, ec2_error};
use karpenter_aws_api::Kind;
use karpenter_aws_api::ec2::{InstanceQuery, InstanceTypeQuery};
use karpenter_aws_api::pricing::ProductQuery;

fn instance(id: &str, zone: &str) -> String {
    format!(
        "<item><instanceId>{id}</instanceId><imageId>ami-1</imageId><instanceType>m5.large</instanceType>\
         <instanceState><code>16</code><name>running</name></instanceState>\
         <launchTime>2026-01-01T00:00:00.000Z</launchTime><placement>{zone}</placement>\
         <subnetId>subnet-1</subnetId><privateDnsName>ip-10-0-0-1.us-west-2.compute.internal</privateDnsName>\
         <tagSet><item><key>karpenter.sh/nodepool</key><value>default</value></item></tagSet></item>"
    )
}

fn page(instances: &str, token: &str) -> String {
    format!(
        "<DescribeInstancesResponse><reservationSet><item><reservationId>r-1</reservationId>\
         <instancesSet>{instances}</instancesSet></item></reservationSet>{token}</DescribeInstancesResponse>"
    )
}

const ZONE: &str = "<availabilityZone>us-west-2a</availabilityZone>";

#[tokio::test]
async fn all_pages_are_read() {
    let mut wire = Wire::new(Retries::Never).await;
    wire.answers("DescribeInstances", 200, &page(&instance("i-1", ZONE), "<nextToken>t2</nextToken>")).await;
    let second = page(&instance("i-2", ZONE), "");
    let mock = wire
        .server
        .mock("POST", "/")
        .match_body(Matcher::Regex("NextToken=t2".to_owned()))
        .with_body(second)
        .create_async()
        .await;
    let found = wire.clients.ec2.describe_instances(&InstanceQuery::default()).await.unwrap();
    mock.assert_async().await;
    assert_eq!(found.iter().map(|instance| instance.id.as_str()).collect::<Vec<_>>(), ["i-1", "i-2"]);
    assert_eq!(found[0].tags["karpenter.sh/nodepool"], "default");
    assert_eq!(found[0].launched_at.to_string(), "2026-01-01T00:00:00Z");
}

#[tokio::test]
async fn a_failing_page_fails_the_list() {
    let mut wire = Wire::new(Retries::Never).await;
    wire.answers("DescribeInstances", 200, &page(&instance("i-1", ZONE), "<nextToken>t2</nextToken>")).await;
    wire.server
        .mock("POST", "/")
        .match_body(Matcher::Regex("NextToken=t2".to_owned()))
        .with_status(500)
        .with_body(ec2_error("InternalError", "sorry"))
        .create_async()
        .await;
    let error = wire.clients.ec2.describe_instances(&InstanceQuery::default()).await.unwrap_err();
    assert_eq!((error.kind, error.code.as_deref()), (Kind::Transient, Some("InternalError")));
}

#[tokio::test]
async fn a_repeated_page_token_fails_the_list() {
    let mut wire = Wire::new(Retries::Never).await;
    wire.answers("DescribeInstances", 200, &page(&instance("i-1", ZONE), "<nextToken>t</nextToken>")).await;
    let error = wire.clients.ec2.describe_instances(&InstanceQuery::default()).await.unwrap_err();
    assert!(error.message.contains("repeats a page token"), "{error}");
}

#[tokio::test]
async fn page_size_and_ids_exclude_each_other() {
    let mut wire = Wire::new(Retries::Never).await;
    wire.answers("DescribeInstances", 200, &page("", "")).await;
    wire.clients.ec2.describe_instances(&InstanceQuery::default()).await.unwrap();
    assert!(wire.last_form().contains("MaxResults=1000"));
    let one = InstanceQuery { ids: vec!["i-1".into()], filters: Vec::new() };
    wire.clients.ec2.describe_instances(&one).await.unwrap();
    let form = wire.last_form();
    assert!(form.contains("InstanceId.1=i-1") && !form.contains("MaxResults"), "{form}");
}

#[tokio::test]
async fn an_instance_without_zone_is_an_error_that_says_so() {
    let mut wire = Wire::new(Retries::Never).await;
    wire.answers("DescribeInstances", 200, &page(&instance("i-1", ""), "")).await;
    let error = wire.clients.ec2.describe_instances(&InstanceQuery::default()).await.unwrap_err();
    assert!(error.to_string().contains("`placement.availabilityZone`"), "{error}");
}

#[tokio::test]
async fn an_instance_type_without_memory_is_skipped_by_name() {
    let mut wire = Wire::new(Retries::Never).await;
    let kind = |name: &str, memory: &str| {
        format!(
            "<item><instanceType>{name}</instanceType><supportedUsageClasses><item>on-demand</item><item>spot</item>\
             </supportedUsageClasses><processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures>\
             <sustainedClockSpeedInGhz>3.1</sustainedClockSpeedInGhz></processorInfo>\
             <vCpuInfo><defaultVCpus>2</defaultVCpus></vCpuInfo>{memory}\
             <networkInfo><maximumNetworkInterfaces>3</maximumNetworkInterfaces><ipv4AddressesPerInterface>10</ipv4AddressesPerInterface>\
             <networkCards><item><networkCardIndex>0</networkCardIndex><maximumNetworkInterfaces>3</maximumNetworkInterfaces></item></networkCards>\
             </networkInfo></item>"
        )
    };
    let types =
        kind("m5.large", "<memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo>") + &kind("x1.odd", "");
    let answer = format!(
        "<DescribeInstanceTypesResponse><instanceTypeSet>{types}</instanceTypeSet></DescribeInstanceTypesResponse>"
    );
    wire.answers("DescribeInstanceTypes", 200, &answer).await;
    let listing = wire.clients.ec2.describe_instance_types(&InstanceTypeQuery::default()).await.unwrap();
    assert_eq!(listing.items.len(), 1);
    assert_eq!((listing.items[0].memory_mib, listing.items[0].sustained_clock_mhz), (8192, Some(3100)));
    assert_eq!(listing.skipped[0].entry, "x1.odd");
    assert_eq!(listing.skipped[0].why, "no `sizeInMiB`");
}

#[tokio::test]
async fn prices_come_from_all_pages() {
    let mut wire = Wire::new(Retries::Never).await;
    let product = |name: &str| {
        format!(
            r#"{{\"product\":{{\"attributes\":{{\"instanceType\":\"{name}\"}}}},\"terms\":{{\"OnDemand\":{{\"a\":{{\"priceDimensions\":{{\"b\":{{\"unit\":\"Hrs\",\"pricePerUnit\":{{\"USD\":\"0.0960000000\"}}}}}}}}}}}}}}"#
        )
    };
    let calls = AtomicUsize::new(0);
    let pages = [
        format!(r#"{{"PriceList":["{}"],"NextToken":"t2"}}"#, product("m5.large")),
        format!(r#"{{"PriceList":["{}"]}}"#, product("m5.xlarge")),
    ];
    wire.server
        .mock("POST", "/")
        .match_header("x-amz-target", "AWSPriceListService.GetProducts")
        .with_header("content-type", "application/x-amz-json-1.1")
        .with_body_from_request(move |_| pages[calls.fetch_add(1, Ordering::SeqCst)].clone().into_bytes())
        .expect(2)
        .create_async()
        .await;
    let listing = wire.clients.pricing.get_products(&ProductQuery::default()).await.unwrap();
    assert_eq!(listing.skipped, []);
    let names: Vec<_> = listing.items.iter().map(|product| product.instance_type.as_str()).collect();
    assert_eq!(names, ["m5.large", "m5.xlarge"]);
    assert_eq!(listing.items[0].prices["USD"], "0.0960000000");
}

//! The SDK backend on the wire: what is sent, and what the answers are turned into.

mod ec2;
mod environment;
mod errors;
mod paging;
mod shift;
mod support;

/// core#2198: with FIPS endpoints asked for, the price list is asked where it is.
#[tokio::test]
async fn the_price_list_is_never_asked_at_a_fips_endpoint() {
    use super::{Config, of_price_list};
    use aws_config::Region;

    let config = Config { region: Some("us-gov-west-1".to_owned()), ..Config::default() };
    for asked in [None, Some(false), Some(true)] {
        let sdk = super::load(&config).await.expect("loads");
        let mut builder = sdk.to_builder();
        builder.set_use_fips(asked);
        let sdk = builder.build();
        let prices = of_price_list(&sdk, Region::from_static("us-east-1"));
        assert_eq!(prices.use_fips(), Some(false), "{asked:?}");
        assert_eq!(prices.region().map(ToString::to_string).as_deref(), Some("us-east-1"));
        assert_eq!(sdk.use_fips(), asked, "the others follow the setting");
    }
}

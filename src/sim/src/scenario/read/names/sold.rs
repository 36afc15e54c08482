//! Instance types that the account in memory sells, by name. It is the same in every region, and no call of it waits.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

use karpenter_aws_api::ec2::InstanceTypeQuery;
use karpenter_aws_sim::{Account, Options};

static TYPES: LazyLock<BTreeSet<String>> = LazyLock::new(asked);

/// The names of its instance types.
pub(super) fn types() -> &'static BTreeSet<String> {
    &TYPES
}

fn asked() -> BTreeSet<String> {
    let clients = Account::new(Options::default()).clients();
    let everything = InstanceTypeQuery::default();
    let mut asking = pin!(clients.ec2.describe_instance_types(&everything));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        // An account without faults only gives other tasks their turn, and there are none.
        if let Poll::Ready(answer) = asking.as_mut().poll(&mut context) {
            let found = answer.map(|listing| listing.items).unwrap_or_default();
            return found.into_iter().map(|info| info.name.to_string()).collect();
        }
    }
}

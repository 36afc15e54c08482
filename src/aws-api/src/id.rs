//! Names AWS gives to things, one type each, so that a subnet id cannot be passed for an instance id.
//!
//! The texts are opaque: nothing is validated here, because AWS alone decides what is well formed.

use std::fmt;
use std::sync::Arc;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The text as AWS knows it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
    )*};
}

ids! {
    /// Amazon resource name, `arn:<partition>:<service>:<region>:<account>:<resource>`.
    Arn;
    /// `i-...`
    InstanceId;
    /// `ami-...`
    ImageId;
    /// Instance type name, `m5.large`.
    InstanceType;
    /// `subnet-...`
    SubnetId;
    /// `sg-...`
    SecurityGroupId;
    /// `vpc-...`
    VpcId;
    /// Availability zone name, `eu-west-1a`. The same letter is another place in another account.
    Zone;
    /// Availability zone id, `euw1-az2`. The same in all accounts.
    ZoneId;
    /// `lt-...`
    LaunchTemplateId;
    /// `fleet-...`
    FleetId;
    /// `cr-...`
    ReservationId;
    /// `pg-...`
    PlacementGroupId;
    /// Address of a queue, as `GetQueueUrl` returns it.
    QueueUrl;
    /// `a-...`, name of a pod identity association inside its cluster.
    AssociationId;
    /// ARN of a `CloudFormation` stack.
    StackId;
    /// ARN of a `CloudFormation` change set.
    ChangeSetId;
}

//! The AWS provider: what can be bought, how it is launched, what state it is in.
//!
//! One AWS concept per file. Pure rules (density, overhead, labels, user data, filters, drift) take values and
//! return values; only a handful of types hold clients, and every one of them keeps what it knew when AWS
//! answers with an error or with nothing. [`AwsProvider`] puts the parts together behind the provider port.

pub mod catalogue;
pub mod cluster;
pub mod image;
pub mod instances;
pub mod launch;
pub mod network;
pub mod notice;
pub mod provider;
pub mod registry;
pub mod settings;
pub mod tags;
pub mod userdata;

pub mod calls;
pub mod class;
pub mod market;
#[cfg(test)]
pub(crate) mod testing;

pub use class::store::NodeClassStore;
pub use provider::{AwsProvider, NODE_CLASS_KIND};
pub use settings::{Gates, Settings};

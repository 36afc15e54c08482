//! The AWS provider: what can be bought, how it is launched, what became of it.
//!
//! One AWS concept per file. Pure rules (density, overhead, labels, user data, filters, drift) take values and
//! return values; only a handful of types hold clients, and every one of them keeps what it knew when AWS
//! answers with an error or with nothing. [`AwsProvider`] puts the parts together behind the provider port.

mod batch;
pub mod cache;
pub mod catalogue;
pub mod class_view;
pub mod cluster;
pub mod density;
pub mod discovered;
pub mod drift;
pub mod fault;
pub mod image;
pub mod instance_profiles;
pub mod instance_type;
pub mod instance_types;
pub mod instance_view;
pub mod instances;
pub mod launch;
pub mod network;
pub mod node_class;
pub mod notice;
pub mod observer;
pub mod offerings;
pub mod placement_groups;
pub mod prices;
pub mod provider;
pub mod provider_id;
pub mod registration;
pub mod registry;
pub mod repair;
pub mod reservations;
pub mod selector;
pub mod settings;
pub mod tags;
pub mod unavailable;
pub mod userdata;
pub mod vpc_limits;
pub mod zonal_shifts;

#[cfg(test)]
pub(crate) mod testing;

pub use node_class::NodeClassStore;
pub use provider::{AwsProvider, NODE_CLASS_KIND};
pub use settings::Settings;

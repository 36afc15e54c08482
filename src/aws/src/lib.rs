//! The AWS provider: what can be bought, how it is launched, what became of it.
//!
//! One AWS concept per file. Pure rules (density, overhead, labels, user data, filters) take values and return
//! values; only a handful of types hold clients, and every one of them keeps what it knew when AWS answers with
//! an error or with nothing.

pub mod cache;
pub mod catalogue;
pub mod class_view;
pub mod density;
pub mod image;
pub mod instance_type;
pub mod network;
pub mod node_class;
pub mod offerings;
pub mod prices;
pub mod provider_id;
pub mod selector;
pub mod settings;
pub mod tags;
pub mod unavailable;
pub mod userdata;
pub mod vpc_limits;

#[cfg(test)]
pub(crate) mod testing;

pub use settings::Settings;

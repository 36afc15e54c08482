//! Makes an AWS account ready for Karpenter: roles, policies, instance profile, interruption queue and
//! rules, spot service-linked role, discovery tags and the access entry of the nodes.
//!
//! One pass, like the controller: [`desired`](desired::desired) computes every prerequisite as a pure value
//! from [`Settings`], [`look`](observe::look) reads what the account has, [`plan`](plan::plan) compares
//! the two and yields a [`Plan`](plan::Plan) of single steps, [`apply`](apply::apply) carries them out.
//! [`stack`] makes a `CloudFormation` stack of the same value, and [`render`] writes the template and the documents of
//! the Terraform module from it, so they cannot drift apart (spec aws-operations 1.15.1).
//!
//! Invariants:
//! * a second `apply` finds nothing to do;
//! * what exists and does not carry our ownership tag is left as it is, unless settings say
//!   [`Adopted`](settings::Foreign::Adopted). Subnets and security groups get the discovery tag all the same, unless
//!   they are tagged for another cluster;
//! * `destroy` takes away what carries our ownership tag, the launch templates and instance profiles that the
//!   controller left behind, and nothing else;
//! * the account-wide spot service-linked role is created when missing and never deleted;
//! * a half-answered read stops the run before the first write.

pub mod apply;
pub mod aws_auth;
pub mod check;
pub mod desired;
pub mod destroy;
pub mod error;
pub mod leftovers;
pub mod names;
pub mod observe;
pub mod permissions;
pub mod plan;
pub mod policy;
mod ready;
pub mod render;
mod resource_owner;
pub mod settings;
pub mod show;
pub mod stack;
pub mod step;

pub use error::Error;
pub use ready::make_ready;
pub use settings::Settings;

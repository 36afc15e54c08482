//! The prerequisites in other tools' words, from the same value that `bootstrap apply` works from.
//!
//! | rendering | for | committed as |
//! |---|---|---|
//! | [`cloudformation`] | `aws cloudformation deploy` | `cloudformation/karpenter.yaml` |
//! | [`terraform`] | the Terraform module | `terraform/generated/` |
//! | [`iam_json`] | people who paste documents into tools of their own | – |
//! | [`eksctl`] | `eksctl create cluster` | – |
//!
//! The first two do not know the cluster: they are rendered from [`Symbols`], settings whose values are the
//! placeholders of the tool. Everything is text in, text out: no account is asked.

pub mod cloudformation;
pub mod eksctl;
pub mod iam_json;
mod symbols;
pub mod terraform;
mod yaml;

pub(crate) use symbols::{Documents, Symbols, node_policies};

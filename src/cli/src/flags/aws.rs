//! Flags of the AWS provider (spec aws-provider 2.1).

use std::time::Duration;

use clap::Args;

use super::value;

/// Settings of the AWS provider.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "AWS settings")]
pub(crate) struct AwsFlags {
    /// Name of the EKS cluster
    #[arg(long, env, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) cluster_name: String,
    /// API server endpoint that nodes join; looked up with eks:DescribeCluster when empty
    #[arg(long, env, default_value = "", value_parser = value::url)]
    pub(crate) cluster_endpoint: String,
    /// Base64 CA bundle that nodes trust; taken from the controller's own connection when empty
    #[arg(long, env, default_value = "")]
    pub(crate) cluster_ca_bundle: String,
    /// The VPC cannot reach the IAM and pricing APIs
    #[arg(long, env, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean)]
    pub(crate) isolated_vpc: bool,
    /// Take cluster details such as the version from eks:DescribeCluster
    #[arg(long, env, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean)]
    pub(crate) eks_control_plane: bool,
    /// Share of memory that a virtual machine never sees, as a decimal
    #[arg(long = "vm-memory-overhead-percent", env = "VM_MEMORY_OVERHEAD_PERCENT", default_value = "0.075", value_parser = value::fraction_ppm)]
    pub(crate) vm_memory_overhead_ppm: u64,
    /// Network interfaces kept out of the pod count
    #[arg(long = "reserved-enis", env = "RESERVED_ENIS", default_value_t = 0)]
    pub(crate) reserved_enis: u32,
    /// Name of the SQS queue with notices about instances; without one they are not followed
    #[arg(long, env, default_value = "")]
    pub(crate) interruption_queue: String,
    /// Skip the dry runs that validate an EC2NodeClass
    #[arg(long, env, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", value_parser = value::boolean)]
    pub(crate) disable_dry_run: bool,
    /// How often images are looked up, at least 1m
    #[arg(long, env, default_value = "1m", value_parser = value::duration_from_one_minute)]
    pub(crate) ami_refresh_interval: Duration,
    /// How often subnets are looked up, at least 1m
    #[arg(long, env, default_value = "1m", value_parser = value::duration_from_one_minute)]
    pub(crate) subnet_refresh_interval: Duration,
}

//! The AWS controllers, unmodified, on an API server and an AWS account in memory, in virtual time.

mod cluster;
mod interruption;
mod nodeclass;
mod placement;
mod reserved;
mod workload;
mod world;

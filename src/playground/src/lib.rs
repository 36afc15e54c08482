//! What joins the simulated cluster of `sim` to an AWS account, in memory or emulated: used by the embedded demo
//! and by the end-to-end harness, never by the product.

mod ec2_machines;
mod playground;

pub use ec2_machines::Ec2Machines;
pub use playground::{Playground, Speed};

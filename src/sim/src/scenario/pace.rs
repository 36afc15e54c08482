//! Pace of the machines of scenarios, in memory and on real parts: about as those of EKS, which are ready some three quarters
//! of a minute after their launch. One pace, so that what is expected of pending times holds in both.

use std::time::Duration;

/// Time from the launch of an instance until EC2 calls it running.
pub const PENDING: Duration = Duration::from_secs(8);
/// Time from then until its Node is registered.
pub const BOOT: Duration = Duration::from_secs(25);
/// Time from its registration until the Node is ready.
pub const READY: Duration = Duration::from_secs(10);
/// Largest share by which the last two may be longer, in percent: machines that are launched together are never ready together,
/// and where they are the scheduler meets them all in one pass.
pub const SPREAD: u32 = 20;

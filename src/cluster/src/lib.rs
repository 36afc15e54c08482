//! Events in, consistent snapshots out.

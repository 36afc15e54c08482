//! The controllers, unmodified, on an API server and a cloud in memory, in virtual time.

mod coldstart;
mod contradiction;
mod crash;
mod deletion;
mod disruption;
mod drift;
mod election;
mod events;
mod faults;
mod launch;
mod permissions;
mod pools;
mod registration;
mod repair;
mod scale;
mod scrape;
mod static_capacity;
mod termination;
mod volumes;
mod world;

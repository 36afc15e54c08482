//! Inputs of offerings that change from hour to hour: prices, reservations, and recent lack of capacity.

pub mod prices;
pub mod reservations;
pub mod unavailable;

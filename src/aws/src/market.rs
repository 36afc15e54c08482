//! What offerings depend on from hour to hour: prices, reservations, and what recently could not be had.

pub mod prices;
pub mod reservations;
pub mod unavailable;

//! What the simulation promises: runs repeat, what the product does breaks no rule, and a product with a defect is found out.

mod defects;
mod repeat;
mod swarm;

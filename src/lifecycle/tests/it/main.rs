//! The life of a claim from creation to deletion, driven through the public step functions by a small world.

mod crashes;
mod world;

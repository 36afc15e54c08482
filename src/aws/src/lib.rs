//! The AWS provider: catalogue, capacity, prices, images, user data, launch.

//! Memory that a cluster takes. 5,000 nodes and 50,000 pods have to leave most of 150 MB to the rest of the program.

use crate::large;

#[test]
fn a_tenth_of_a_large_cluster_takes_less_than_eight_megabytes() {
    let mut world = None;
    let held = allocation_counter::measure(|| world = Some(large::cluster(500)));
    assert!(world.is_some());
    assert!(held.bytes_current < 8_000_000, "{} bytes", held.bytes_current);
}

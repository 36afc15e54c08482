//! Names that others read and write too: labels, annotations, taints, finalizers, tags, condition types and reasons.
//!
//! Each is spelt here and nowhere else, so that what one controller writes another finds; `cargo xtask tidy` refuses a
//! second spelling. They are an API: a name never changes. What exists only on AWS is in a child called `aws`.

pub mod annotation;
pub mod condition;
pub mod finalizer;
pub mod label;
pub mod reason;
pub mod tag;
pub mod taint;

/// The present name of `key` in a table of old and present names.
pub fn today(key: &str, table: &[(&str, &'static str)]) -> Option<&'static str> {
    table.iter().find(|(old, _)| *old == key).map(|(_, name)| *name)
}

/// The id of the zone of this number in an AWS region: `usw2-az1`. Which number the zone of a letter has differs from account
/// to account.
pub fn zone_id(region: &str, number: u32) -> String {
    format!("{}-az{number}", abbreviated(region))
}

/// `us-west-2` to `usw2`, `ap-southeast-1` to `apse1`; what is not spelled as a region stays as it is.
fn abbreviated(region: &str) -> String {
    let Some((area, (direction, number))) =
        region.split_once('-').and_then(|(area, rest)| Some((area, rest.rsplit_once('-')?)))
    else {
        return region.to_owned();
    };
    let short = |word: &str| match word {
        "northeast" => "ne".to_owned(),
        "northwest" => "nw".to_owned(),
        "southeast" => "se".to_owned(),
        "southwest" => "sw".to_owned(),
        other => other.chars().take(1).collect(),
    };
    let direction: String = direction.split('-').map(short).collect();
    format!("{area}{direction}{number}")
}

#[cfg(test)]
mod tests {
    use super::zone_id;

    #[test]
    fn zone_ids_are_abbreviated_like_in_aws() {
        for (region, id) in [
            ("us-west-2", "usw2-az1"),
            ("eu-central-1", "euc1-az1"),
            ("ap-southeast-1", "apse1-az1"),
            ("us-gov-east-1", "usge1-az1"),
            ("mars", "mars-az1"),
        ] {
            assert_eq!(zone_id(region, 1), id);
        }
    }
}

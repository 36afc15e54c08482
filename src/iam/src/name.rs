//! Names of IAM's roles, instance profiles and policies
//! (<https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html>).

/// Returns whether a text is a name of 1 to `longest` characters, without path.
pub fn is_name(text: &str, longest: usize) -> bool {
    let known = |one: char| one.is_ascii_alphanumeric() || "_+=,.@-".contains(one);
    (1..=longest).contains(&text.len()) && text.chars().all(known)
}

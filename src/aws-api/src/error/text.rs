//! Parts of AWS's texts that are for people.

/// Text that EC2 puts before a ciphertext that differs in every answer to the same request and tells people nothing.
const CIPHERTEXT: &str = "Encoded authorization failure message:";

/// `message` without the ciphertext of a refusal, so that the same refusal reads the same.
pub fn readable(message: &str) -> String {
    message.split(CIPHERTEXT).next().unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_refusal_reads_the_same() {
        let refused = |cipher: &str| readable(&format!("You are not authorized. {CIPHERTEXT} {cipher}"));
        assert_eq!(refused("4mYcX"), "You are not authorized.");
        assert_eq!(refused("4mYcX"), refused("Zq8-p"));
        assert_eq!(readable("The request is too long."), "The request is too long.");
    }
}

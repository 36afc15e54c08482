//! Packs statements, of the controller or of the caller of bootstrap, into as few managed policies as AWS's size limit
//! allows.
//!
//! One managed policy holds 6,144 characters and a role takes ten of them by default, while the controller's
//! statements need about 6,500 with an ordinary cluster name and far more with a long one, because the name
//! stands in condition keys (spec aws-operations 1.1, 1.14, P-2 and P-3).

use super::{Document, Statement};

/// AWS's limit for one customer-managed policy, in characters that are not white space.
pub(crate) const MANAGED_POLICY_MAX: usize = 6_144;

/// Splits `statements`, in order, into documents of at most `max` measured characters.
///
/// A single statement larger than `max` gets a document of its own: AWS's refusal of it is then the error the
/// user sees, naming the policy.
pub fn split(statements: Vec<Statement>, max: usize) -> Vec<Document> {
    let mut documents: Vec<Document> = Vec::new();
    for statement in statements {
        if let Some(last) = documents.last_mut() {
            last.statements.push(statement);
            if last.measured_size() <= max {
                continue;
            }
            let Some(overflow) = last.statements.pop() else { continue };
            documents.push(Document::of(vec![overflow]));
        } else {
            documents.push(Document::of(vec![statement]));
        }
    }
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(index: usize) -> Statement {
        Statement::allow(&format!("S{index}"), &["ec2:RunInstances"], vec!["x".repeat(1_000)])
    }

    #[test]
    fn every_statement_is_kept_in_order_and_every_document_fits() {
        let statements: Vec<_> = (0..13).map(statement).collect();
        let documents = split(statements.clone(), MANAGED_POLICY_MAX);
        assert!(documents.iter().all(|document| document.measured_size() <= MANAGED_POLICY_MAX));
        assert_eq!(documents.len(), 3);
        let kept: Vec<_> = documents.into_iter().flat_map(|document| document.statements).collect();
        assert_eq!(kept, statements);
    }

    #[test]
    fn nothing_gives_nothing() {
        assert!(split(Vec::new(), MANAGED_POLICY_MAX).is_empty());
    }
}

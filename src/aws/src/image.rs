//! Images: which AMI a node of a given type is started from (spec aws-provider 6).

pub mod alias;
pub mod family;
pub mod parameters;
pub mod resolve;
pub mod select;

use karpenter_api::Operator as ApiOperator;
use karpenter_api::ec2nodeclass::Ami;
use karpenter_model::{Expression, LabelRegistry, Operator, Requirements, Undefined};

/// The requirements of an image in a `NodeClass`'s status.
pub fn requirements(ami: &Ami, registry: &LabelRegistry) -> Requirements {
    let expressions: Vec<Expression> = ami
        .requirements
        .iter()
        .map(|requirement| {
            let values: Vec<&str> = requirement.values().iter().map(String::as_str).collect();
            Expression::new(&requirement.key, operator(requirement.operator), &values)
        })
        .collect();
    Requirements::from_expressions(registry, &expressions)
}

/// The image a node of a type is started from: the first one of the status that accepts it.
pub fn image_for<'a>(amis: &'a [Ami], of_type: &Requirements, registry: &LabelRegistry) -> Option<&'a Ami> {
    amis.iter()
        .find(|ami| of_type.compatible(&requirements(ami, registry), Undefined::WellKnown(registry)).is_ok())
}

fn operator(operator: ApiOperator) -> Operator {
    match operator {
        ApiOperator::In => Operator::In,
        ApiOperator::NotIn => Operator::NotIn,
        ApiOperator::Exists => Operator::Exists,
        ApiOperator::DoesNotExist => Operator::DoesNotExist,
        ApiOperator::Gt => Operator::Gt,
        ApiOperator::Lt => Operator::Lt,
        ApiOperator::Gte => Operator::Gte,
        ApiOperator::Lte => Operator::Lte,
    }
}

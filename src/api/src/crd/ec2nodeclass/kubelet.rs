//! The kubelet block of an EC2NodeClass (spec aws-provider 1.4).

use super::super::schema::Schema;

/// Any object: the controller refuses what a kubelet would not take, field by field.
pub(super) fn kubelet() -> Schema {
    Schema::object().keep_unknown().describe(
        "Kubelet settings, as in the kubelet's own configuration file (kubelet.config.k8s.io/v1beta1). Families other than \
         AL2023 take some of them only.",
    )
}

//! Causes that were already reported: an event, a condition or a line of the controller's log that names a known cause.

use crate::check::{Check, Look, Phrase, Scope, Severity, aws, both, kubernetes, ours, reference};
use crate::facts::{Answer, Facts};

pub(super) const CHECKS: &[Check] = &[
    said(
        "P-2",
        Severity::Error,
        "a policy cannot be created: LimitExceeded",
        "a managed policy may have 6,144 characters",
        "`karpenter bootstrap apply --cluster-name <cluster>`, which splits policies by size",
        &[aws(&["cannot exceed quota for policysize"])],
    ),
    said(
        "P-23",
        Severity::Error,
        "every launch fails",
        "AWS still verifies the new account",
        "wait for the e-mail, or ask AWS Support",
        &[aws(&["pendingverification"])],
    ),
    Check {
        look: Look::SaidUnless(
            has_spot_role,
            &[aws(&["servicelinkedrolecreationnotpermitted"]), both(&["spotslrcreationfailed"])],
        ),
        ..said(
            "D-02",
            Severity::Error,
            "spot launches fail",
            "EC2 may not make the service-linked role for spot",
            "`aws iam create-service-linked-role --aws-service-name spot.amazonaws.com`",
            &[],
        )
    },
    said(
        "D-03",
        Severity::Error,
        "the start fails: the name of STS, or of another service of AWS, cannot be looked up",
        "the controller needs the cluster's DNS, which does not run yet",
        "`helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set dnsPolicy=Default`",
        &[
            reference(&["lookup sts.", "timeout"]),
            reference(&["lookup sts.", "no such host"]),
            // Said of calls to AWS only, and without the name: it may be that of any service.
            ours(&["dispatch failure", "dns error"]),
        ],
    ),
    said(
        "D-08",
        Severity::Error,
        "403 Forbidden from public.ecr.aws",
        "an expired login is sent where none is needed",
        "`docker logout public.ecr.aws; helm registry logout public.ecr.aws`",
        &[kubernetes(&["public.ecr.aws", "403 forbidden"])],
    ),
    said(
        "D-22",
        Severity::Advice,
        "nodes are smaller than planned for",
        "the estimate of memory that the hypervisor keeps is too low",
        "`helm upgrade karpenter <chart> --namespace <namespace> --reuse-values --set settings.vmMemoryOverheadPercent=<more>`",
        &[
            both(&["consistentstatefound is false", "memory"]),
            both(&["expected", "of resource memory, but found"]),
        ],
    ),
    said(
        "D-23",
        Severity::Error,
        "the last replicas of a workload stay Pending",
        "its spread counts zones in which no NodePool can launch",
        "restrict the pods to the NodePool's zones by node affinity, or widen the NodePool: `kubectl edit nodepool <pool>`",
        &[
            reference(&["failedscheduling", "unsatisfiable topology constraint"]),
            ours(&["topology rule is not met", "spread over `topology.kubernetes.io/zone`"]),
        ],
    ),
    said(
        "D-24",
        Severity::Error,
        "no instance type met the scheduling requirements or had a required offering",
        "the requests are too large for the NodePool's types, or a volume binds the pod to a zone it does not have",
        "`karpenter explain pod/<namespace>/<pod>` names the requirement that excludes most; widen the NodePool",
        &[
            reference(&["no instance type met the scheduling requirements or had a required offering"]),
            reference(&["no instance type satisfied resources"]),
            ours(&["no instance type satisfies requirements, resources and offerings at once"]),
            ours(&["volumes of the pod cannot be attached here"]),
        ],
    ),
    said(
        "D-28",
        Severity::Advice,
        "consolidation finds nothing better",
        "affinities or spreads of the pods leave no other place",
        "`karpenter explain node/<node>` names the pods; relax them, or accept",
        &[both(&["unconsolidatable:"])],
    ),
    said(
        "D-29",
        Severity::Error,
        "launches fail with InvalidBlockDeviceMapping",
        "the class names a device that its image does not have",
        "use the root device of the image, /dev/xvda, or /dev/sda1 for Windows and Ubuntu: `kubectl edit ec2nodeclass <class>`",
        &[aws(&["invalidblockdevicemapping"])],
    ),
    said(
        "D-31",
        Severity::Error,
        "instances terminate at once",
        "the key of their EBS volumes may not be used on launch",
        "allow the key for EC2 (kms:ViaService) with grants, for the controller's role: `aws kms get-key-policy --key-id <key> --policy-name default`, then put-key-policy",
        &[aws(&["client.internalerror"]), aws(&["client.invalidkmskey"])],
    ),
    said(
        "D-34",
        Severity::Error,
        "`No entry for <type> in eni-max-pods`",
        "the VPC CNI or the image is older than the instance type",
        "upgrade the image, or set kubelet.maxPods: `kubectl edit ec2nodeclass <class>`",
        &[aws(&["no entry for", "eni-max-pods"])],
    ),
];

/// A check of what was said about the cluster.
const fn said(
    id: &'static str,
    severity: Severity,
    symptom: &'static str,
    cause: &'static str,
    fix: &'static str,
    phrases: &'static [Phrase],
) -> Check {
    Check { id, also: &[], severity, scope: Scope::Cluster, symptom, cause, fix, look: Look::Said(phrases) }
}

/// The controller failed for lack of it before it was made, by `--fix` or otherwise.
fn has_spot_role(facts: &Facts) -> bool {
    facts.account.spot_role == Answer::Seen(true)
}

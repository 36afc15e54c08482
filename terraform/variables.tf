# The cluster

variable "cluster_name" {
  description = "Name of the EKS cluster."
  type        = string

  validation {
    condition     = can(regex("^[0-9A-Za-z][A-Za-z0-9_-]{0,99}$", var.cluster_name))
    error_message = "Expected 1 to 100 letters, digits, dashes and underscores, beginning with a letter or digit."
  }
}

variable "tags" {
  description = "Tags for everything that is created."
  type        = map(string)
  default     = {}
}

variable "partition" {
  description = "Partition of the account, such as `aws`; looked up otherwise. With `account_id` and `region` a plan shows every document in full also where the module has `depends_on`."
  type        = string
  default     = null
}

variable "account_id" {
  description = "Id of the account; looked up otherwise. See `partition`."
  type        = string
  default     = null

  validation {
    condition     = var.account_id == null || can(regex("^[0-9]{12}$", var.account_id))
    error_message = "Expected 12 digits."
  }
}

variable "region" {
  description = "Region of the cluster; that of the provider otherwise. See `partition`."
  type        = string
  default     = null
}

variable "create" {
  description = "Whether anything is made at all."
  type        = bool
  default     = true
}

# The controller

variable "identity" {
  description = "How the controller gets its credentials: `pod-identity` (needs the add-on eks-pod-identity-agent), `irsa` (needs `oidc_issuer`), `policies-only` (policies for a role that is made elsewhere) or `none` (neither role nor policies)."
  type        = string
  default     = "pod-identity"

  validation {
    condition     = contains(["pod-identity", "irsa", "policies-only", "none"], var.identity)
    error_message = "Expected pod-identity, irsa, policies-only or none."
  }
}

variable "pod_identity_trust" {
  description = "What ties the controller role to this cluster with EKS Pod Identity: `cluster-arn` (ARN and account of the cluster, as `aws:SourceArn` and `aws:SourceAccount`) or `session-tags` (the tags that EKS gives every session: cluster, namespace and service account)."
  type        = string
  default     = "cluster-arn"

  validation {
    condition     = contains(["cluster-arn", "session-tags"], var.pod_identity_trust)
    error_message = "Expected cluster-arn or session-tags."
  }
}

variable "oidc_issuer" {
  description = "The cluster's OIDC issuer for `identity = \"irsa\"`; IAM must know it as an identity provider."
  type        = string
  default     = null

  validation {
    condition     = var.oidc_issuer == null || can(regex("^(https://)?[^:/]+(/[^:/]+)*$", var.oidc_issuer))
    error_message = "Expected the issuer as EKS names it, such as https://oidc.eks.eu-west-1.amazonaws.com/id/ABC: no ARN, no `/` at its end."
  }
}

variable "namespace" {
  description = "Namespace of the controller's service account."
  type        = string
  default     = "kube-system"
}

variable "service_account" {
  description = "Name of the controller's service account."
  type        = string
  default     = "karpenter"
}

variable "controller_role_name" {
  description = "Name of the controller role; else `<cluster>-karpenter`, cut to what IAM allows."
  type        = string
  default     = null

  validation {
    condition     = var.controller_role_name == null || can(regex("^[\\w+=,.@-]{1,64}$", var.controller_role_name))
    error_message = "Expected a name without path, of at most 64 letters, digits and `_+=,.@-`."
  }
}

variable "create_pod_identity_association" {
  description = "Make the association of the service account with `identity = \"pod-identity\"`. Set it to false while another module has one: EKS allows one."
  type        = bool
  default     = true
}

variable "controller_role_description" {
  description = "Description of the controller role; else what `karpenter bootstrap` says."
  type        = string
  default     = null
}

variable "controller_role_max_session_duration" {
  description = "Longest session of the controller role, 3600 to 43200 seconds; else that of IAM, one hour."
  type        = number
  default     = null

  validation {
    condition     = var.controller_role_max_session_duration == null ? true : var.controller_role_max_session_duration >= 3600 && var.controller_role_max_session_duration <= 43200
    error_message = "Expected 3600 to 43200 seconds."
  }
}

variable "controller_role_tags" {
  description = "Further tags of the controller role."
  type        = map(string)
  default     = {}
}

variable "policy_suffix" {
  description = "What the names of the controller's policies end with; else the cluster's name, which is not enough where an account has clusters of one name in several regions."
  type        = string
  default     = null

  validation {
    condition     = var.policy_suffix == null || can(regex("^[\\w+=,.@-]{1,100}$", var.policy_suffix))
    error_message = "Expected at most 100 letters, digits and `_+=,.@-`."
  }
}

variable "controller_policy_description" {
  description = "Description of the controller's policies; else what `karpenter bootstrap` says. IAM cannot change it: another one makes the policies again."
  type        = string
  default     = null
}

variable "extra_controller_policy_arns" {
  description = "ARNs of further managed policies of the controller role, by any name."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for arn in values(var.extra_controller_policy_arns) : can(regex("^arn:[^:]+:iam::([0-9]{12}|aws):policy/", arn))])
    error_message = "Expected ARNs of IAM policies."
  }
}

variable "extra_controller_statements" {
  description = "Further statements of the controller's last policy, as JSON."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for statement in var.extra_controller_statements : can(jsondecode(statement).Effect)])
    error_message = "Expected statements of IAM as JSON, such as jsonencode({ Effect = \"Allow\", ... })."
  }
}

variable "extra_controller_trust_statements" {
  description = "Further statements of the trust document of the controller role, as JSON."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for statement in var.extra_controller_trust_statements : can(jsondecode(statement).Effect)])
    error_message = "Expected statements of IAM as JSON, such as jsonencode({ Effect = \"Allow\", ... })."
  }
}

variable "zonal_shift" {
  description = "Let the controller read the zonal-shift status of the cluster."
  type        = bool
  default     = false
}

variable "extra_ssm_parameter_arns" {
  description = "ARNs of private SSM parameters that EC2NodeClasses name in `amiSelectorTerms`."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.extra_ssm_parameter_arns : can(regex("^arn:[^:]+:ssm:[^:]+:[0-9]{12}:parameter/", arn))])
    error_message = "Expected ARNs of SSM parameters."
  }
}

# IAM

variable "iam_path" {
  description = "IAM path of roles, policies and instance profile."
  type        = string
  default     = "/"

  validation {
    condition     = can(regex("^/([!-~]+/)?$", var.iam_path)) && length(var.iam_path) <= 512
    error_message = "Expected a path that begins and ends with `/`, of at most 512 characters."
  }
}

variable "permissions_boundary_arn" {
  description = "ARN of the permissions boundary of every role that is made."
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary_arn == null || can(regex("^arn:[^:]+:iam::([0-9]{12}|aws):policy/", var.permissions_boundary_arn))
    error_message = "Expected the ARN of an IAM policy."
  }
}

variable "create_spot_service_linked_role" {
  description = "Make the account's service-linked role for spot instances. Fails where it exists, and `terraform destroy` would remove it for the whole account: better made once, outside this module."
  type        = bool
  default     = false
}

# The nodes

variable "node_role_name" {
  description = "Name of the node role; else `KarpenterNodeRole-<cluster>`, cut to what IAM allows."
  type        = string
  default     = null

  validation {
    condition     = var.node_role_name == null || can(regex("^[\\w+=,.@-]{1,64}$", var.node_role_name))
    error_message = "Expected a name without path, of at most 64 letters, digits and `_+=,.@-`."
  }
}

variable "node_role_description" {
  description = "Description of the node role; else what `karpenter bootstrap` says."
  type        = string
  default     = null
}

variable "node_role_max_session_duration" {
  description = "Longest session of the node roles made here, 3600 to 43200 seconds; else that of IAM, one hour."
  type        = number
  default     = null

  validation {
    condition     = var.node_role_max_session_duration == null ? true : var.node_role_max_session_duration >= 3600 && var.node_role_max_session_duration <= 43200
    error_message = "Expected 3600 to 43200 seconds."
  }
}

variable "node_role_tags" {
  description = "Further tags of the node roles made here."
  type        = map(string)
  default     = {}
}

variable "cluster_ip_family" {
  description = "`ipv4` or `ipv6`: with `ipv6` the node roles get the policy `AmazonEKS_CNI_IPv6_Policy` of the account instead of `AmazonEKS_CNI_Policy` of AWS. It must exist."
  type        = string
  default     = "ipv4"

  validation {
    condition     = contains(["ipv4", "ipv6"], var.cluster_ip_family)
    error_message = "Expected ipv4 or ipv6."
  }
}

variable "attach_cni_policy" {
  description = "Give the node roles the policy of the CNI. Without it the DaemonSet `aws-node` needs a role of its own, or nodes do not become ready."
  type        = bool
  default     = true
}

variable "create_node_role" {
  description = "Make the node role, unless `node_role_arn` names one. Set it to false when that role is made in the same configuration: Terraform must know before the first apply."
  type        = bool
  default     = true
}

variable "node_role_arn" {
  description = "ARN of a node role of your own, instead of one made here. It is left as it is."
  type        = string
  default     = null

  validation {
    condition     = var.node_role_arn == null || can(regex("^arn:[^:]+:iam::[0-9]{12}:role/", var.node_role_arn))
    error_message = "Expected the ARN of an IAM role."
  }
}

variable "extra_node_policy_arns" {
  description = "ARNs of further managed policies of the node roles made here, by any name."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for arn in values(var.extra_node_policy_arns) : can(regex("^arn:[^:]+:iam::([0-9]{12}|aws):policy/", arn))])
    error_message = "Expected ARNs of IAM policies."
  }
}

variable "windows" {
  description = "Make a second node role, for Windows nodes: they need an access entry of another type than Linux nodes."
  type        = bool
  default     = false
}

variable "windows_node_role_name" {
  description = "Name of the node role for Windows; else `KarpenterWindowsNodeRole-<cluster>`, cut to what IAM allows."
  type        = string
  default     = null

  validation {
    condition     = var.windows_node_role_name == null || can(regex("^[\\w+=,.@-]{1,64}$", var.windows_node_role_name))
    error_message = "Expected a name without path, of at most 64 letters, digits and `_+=,.@-`."
  }
}

variable "extra_node_roles" {
  description = "Further roles of your own that EC2NodeClasses name: ARN and platform (`linux` or `windows`), by any name."
  type = map(object({
    arn      = string
    platform = optional(string, "linux")
  }))
  default = {}

  validation {
    condition     = alltrue([for role in values(var.extra_node_roles) : contains(["linux", "windows"], role.platform)])
    error_message = "Expected the platform linux or windows."
  }

  validation {
    condition     = alltrue([for role in values(var.extra_node_roles) : can(regex("^arn:[^:]+:iam::[0-9]{12}:role/", role.arn))])
    error_message = "Expected ARNs of IAM roles."
  }
}

variable "access_entry" {
  description = "Make EKS access entries so that nodes may join. The cluster's authentication mode must be API or API_AND_CONFIG_MAP."
  type        = bool
  default     = true
}

variable "create_instance_profile" {
  description = "Make the instance profile, which only EC2NodeClasses with `spec.instanceProfile` need."
  type        = bool
  default     = true
}

variable "instance_profile_name" {
  description = "Name of the instance profile for clusters without an IAM endpoint; else `KarpenterNodeInstanceProfile-<cluster>`, cut to what IAM allows."
  type        = string
  default     = null

  validation {
    condition     = var.instance_profile_name == null || can(regex("^[\\w+=,.@-]{1,128}$", var.instance_profile_name))
    error_message = "Expected a name without path, of at most 128 letters, digits and `_+=,.@-`."
  }
}

variable "subnet_ids" {
  description = "Subnets to tag `karpenter.sh/discovery=<cluster>`: private ones with a way out, in two zones or more, that no Terraform configuration makes. One that does must give them the tag itself, or the two undo each other's work."
  type        = set(string)
  default     = []
}

variable "security_group_id" {
  description = "The security group to tag `karpenter.sh/discovery=<cluster>`: usually the cluster security group, which EKS makes. One only, and none that a Terraform configuration makes."
  type        = string
  default     = null
}

variable "tag_security_group" {
  description = "Whether `security_group_id` is tagged; else it is when it is given. Set it to true when the group or its cluster is made in the same configuration: Terraform must know before the first apply."
  type        = bool
  default     = null
}

# Interruptions

variable "create_queue" {
  description = "Make the interruption queue and its rules. Without them `queue_name` names a queue that another module makes; without that the controller hears of no interruption."
  type        = bool
  default     = true
}

variable "queue_name" {
  description = "Name of the interruption queue; else the cluster's name, cut to what SQS allows."
  type        = string
  default     = null

  validation {
    condition     = var.queue_name == null || can(regex("^[A-Za-z0-9_-]{1,80}$", var.queue_name))
    error_message = "Expected at most 80 letters, digits, dashes and underscores."
  }
}

variable "queue_kms_key_arn" {
  description = "ARN of the key that encrypts the queue, instead of SQS's own. Its policy must let events.amazonaws.com use kms:Decrypt and kms:GenerateDataKey."
  type        = string
  default     = null

  validation {
    condition     = var.queue_kms_key_arn == null || can(regex("^arn:[^:]+:kms:[^:]+:[0-9]{12}:key/", var.queue_kms_key_arn))
    error_message = "Expected the ARN of a key, not an alias: the controller's policy names the key."
  }
}

variable "queue_kms_data_key_reuse_period_seconds" {
  description = "How long SQS uses a data key again before it asks KMS, 60 to 86400 seconds; else that of SQS, five minutes."
  type        = number
  default     = null

  validation {
    condition     = var.queue_kms_data_key_reuse_period_seconds == null ? true : var.queue_kms_data_key_reuse_period_seconds >= 60 && var.queue_kms_data_key_reuse_period_seconds <= 86400
    error_message = "Expected 60 to 86400 seconds."
  }
}

variable "extra_queue_statements" {
  description = "Further statements of the queue's policy, as JSON."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for statement in var.extra_queue_statements : can(jsondecode(statement).Effect)])
    error_message = "Expected statements of IAM as JSON, such as jsonencode({ Effect = \"Allow\", ... })."
  }
}

variable "rule_prefix" {
  description = "What the names of the EventBridge rules begin with; else `Karpenter-<cluster>`, cut to what EventBridge allows."
  type        = string
  default     = null

  validation {
    condition     = var.rule_prefix == null || can(regex("^[.\\w-]{1,44}$", var.rule_prefix))
    error_message = "Expected at most 44 letters, digits and `.-_`: EventBridge allows 64, and the longest suffix takes 20."
  }
}

# The controller's policies and nothing else: for a role that another module makes, whatever trusts it.
#
# The whole module with all but the policies switched off, so that there is one source of what they say.

module "karpenter" {
  source = "../"

  cluster_name = var.cluster_name
  identity     = "policies-only"
  iam_path     = var.iam_path
  tags         = var.tags

  node_role_arn            = var.node_role_arn
  extra_node_roles         = { for index, arn in var.extra_node_role_arns : tostring(index) => { arn = arn } }
  queue_name               = var.queue_name
  queue_kms_key_arn        = var.queue_kms_key_arn
  zonal_shift              = var.zonal_shift
  extra_ssm_parameter_arns = var.extra_ssm_parameter_arns

  policy_suffix                 = var.policy_suffix
  controller_policy_description = var.description
  extra_controller_statements   = var.extra_statements

  create_queue            = false
  create_node_role        = false
  create_instance_profile = false
  access_entry            = false
}

variable "cluster_name" {
  description = "Name of the EKS cluster."
  type        = string
}

variable "tags" {
  description = "Tags of the policies."
  type        = map(string)
  default     = {}
}

variable "iam_path" {
  description = "IAM path of the policies."
  type        = string
  default     = "/"
}

variable "policy_suffix" {
  description = "What the names of the policies end with; else the cluster's name."
  type        = string
  default     = null
}

variable "description" {
  description = "Description of the policies."
  type        = string
  default     = null
}

variable "node_role_arn" {
  description = "ARN of the role that the controller gives to nodes; else that of `KarpenterNodeRole-<cluster>` at the path."
  type        = string
  default     = null
}

variable "extra_node_role_arns" {
  description = "ARNs of further roles that EC2NodeClasses name."
  type        = list(string)
  default     = []
}

variable "queue_name" {
  description = "Name of the interruption queue; without one nothing is granted on any queue."
  type        = string
  default     = null
}

variable "queue_kms_key_arn" {
  description = "ARN of the key that encrypts the queue, if it is one of your own."
  type        = string
  default     = null
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
}

variable "extra_statements" {
  description = "Further statements of the last policy, as JSON."
  type        = list(string)
  default     = []
}

output "policy_arns" {
  description = "ARNs of the policies; the role needs all of them."
  value       = module.karpenter.controller_policy_arns
}

output "policy_documents" {
  description = "The policies as JSON, by the beginning of their names: for inline policies."
  value       = module.karpenter.controller_policy_documents
}

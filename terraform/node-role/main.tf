# The role of nodes, its instance profile and its access entry, and nothing else.
#
# The whole module with all but these switched off, so that there is one source of what nodes need.

module "karpenter" {
  source = "../"

  cluster_name = var.cluster_name
  identity     = "none"
  iam_path     = var.iam_path
  tags         = var.tags

  permissions_boundary_arn = var.permissions_boundary_arn
  node_role_name           = var.name
  node_role_description    = var.description
  extra_node_policy_arns   = var.extra_policy_arns
  cluster_ip_family        = var.cluster_ip_family
  attach_cni_policy        = var.attach_cni_policy
  create_instance_profile  = var.create_instance_profile
  instance_profile_name    = var.instance_profile_name
  access_entry             = var.access_entry

  create_queue = false
}

variable "cluster_name" {
  description = "Name of the EKS cluster."
  type        = string
}

variable "tags" {
  description = "Tags for everything that is created."
  type        = map(string)
  default     = {}
}

variable "iam_path" {
  description = "IAM path of role and instance profile."
  type        = string
  default     = "/"
}

variable "permissions_boundary_arn" {
  description = "ARN of the permissions boundary of the role."
  type        = string
  default     = null
}

variable "name" {
  description = "Name of the role; else `KarpenterNodeRole-<cluster>`, cut to what IAM allows."
  type        = string
  default     = null
}

variable "description" {
  description = "Description of the role."
  type        = string
  default     = null
}

variable "extra_policy_arns" {
  description = "ARNs of further managed policies of the role, by any name."
  type        = map(string)
  default     = {}
}

variable "cluster_ip_family" {
  description = "`ipv4` or `ipv6`."
  type        = string
  default     = "ipv4"
}

variable "attach_cni_policy" {
  description = "Give the role the policy of the CNI."
  type        = bool
  default     = true
}

variable "create_instance_profile" {
  description = "Make an instance profile for EC2NodeClasses with `spec.instanceProfile`."
  type        = bool
  default     = true
}

variable "instance_profile_name" {
  description = "Name of the instance profile; else `KarpenterNodeInstanceProfile-<cluster>`, cut to what IAM allows."
  type        = string
  default     = null
}

variable "access_entry" {
  description = "Make an EKS access entry so that nodes with the role may join."
  type        = bool
  default     = true
}

output "name" {
  description = "Name of the role: EC2NodeClass `spec.role`."
  value       = module.karpenter.node_role_name
}

output "arn" {
  description = "ARN of the role."
  value       = module.karpenter.node_role_arn
}

output "unique_id" {
  description = "IAM's own id of the role."
  value       = module.karpenter.node_role_unique_id
}

output "access_entry_arn" {
  description = "ARN of the access entry; null without one."
  value       = module.karpenter.node_access_entry_arn
}

output "instance_profile_name" {
  description = "Name of the instance profile: EC2NodeClass `spec.instanceProfile`; null without one."
  value       = module.karpenter.instance_profile_name
}

# The interruption queue and the rules that fill it, and nothing else.
#
# The whole module with all but these switched off, so that there is one source of what the controller listens to.

module "karpenter" {
  source = "../"

  cluster_name = var.cluster_name
  identity     = "none"
  tags         = var.tags

  queue_name                              = var.name
  queue_kms_key_arn                       = var.kms_key_arn
  queue_kms_data_key_reuse_period_seconds = var.kms_data_key_reuse_period_seconds
  extra_queue_statements                  = var.extra_statements
  rule_prefix                             = var.rule_prefix

  create_node_role        = false
  create_instance_profile = false
  access_entry            = false
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

variable "name" {
  description = "Name of the queue; else the cluster's name, cut to what SQS allows."
  type        = string
  default     = null
}

variable "kms_key_arn" {
  description = "ARN of the key that encrypts the queue, instead of SQS's own."
  type        = string
  default     = null
}

variable "kms_data_key_reuse_period_seconds" {
  description = "How long SQS uses a data key again, 60 to 86400 seconds."
  type        = number
  default     = null
}

variable "extra_statements" {
  description = "Further statements of the queue's policy, as JSON."
  type        = list(string)
  default     = []
}

variable "rule_prefix" {
  description = "What the names of the rules begin with; else `Karpenter-<cluster>`, cut to what EventBridge allows."
  type        = string
  default     = null
}

output "name" {
  description = "Name of the queue: chart value `settings.interruptionQueue`."
  value       = module.karpenter.queue_name
}

output "arn" {
  description = "ARN of the queue."
  value       = module.karpenter.queue_arn
}

output "url" {
  description = "URL of the queue."
  value       = module.karpenter.queue_url
}

output "event_rules" {
  description = "Name and ARN of each rule, by what it announces."
  value       = module.karpenter.event_rules
}

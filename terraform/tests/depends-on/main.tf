# The module as a configuration has it that makes the cluster as well, and waits for it as a whole.

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

variable "cluster_version" {
  type = string
}

variable "cluster_ip_family" {
  type    = string
  default = "ipv4"
}

variable "account" {
  description = "Partition, account and region, where the caller says them."
  type        = object({ partition = optional(string), id = optional(string), region = optional(string) })
  default     = {}
}

resource "terraform_data" "cluster" {
  input = var.cluster_version
}

module "karpenter" {
  source = "../.."

  cluster_name      = "prod"
  cluster_ip_family = var.cluster_ip_family
  attach_cni_policy = true
  partition         = var.account.partition
  account_id        = var.account.id
  region            = var.account.region

  extra_node_policy_arns = {
    backup = "arn:aws:iam::123456789012:policy/backup"
  }

  depends_on = [terraform_data.cluster]
}

output "node_policy_arns" {
  value = module.karpenter.node_policy_arns
}

output "controller_policy_documents" {
  value = module.karpenter.controller_policy_documents
}

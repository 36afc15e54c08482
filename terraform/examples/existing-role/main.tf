# A node role that another team manages, and a second one for a single EC2NodeClass. Neither is changed; both may
# be passed by the controller and may join the cluster.

terraform {
  required_version = ">= 1.5.7"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40"
    }
  }
}

provider "aws" {
  region = "eu-west-1"
}

variable "cluster_name" {
  description = "Name of an EKS cluster that exists."
  type        = string
}

variable "node_role_name" {
  description = "Name of the role that nodes have."
  type        = string
}

variable "gpu_node_role_name" {
  description = "Name of the role that GPU nodes have."
  type        = string
}

data "aws_iam_role" "node" {
  name = var.node_role_name
}

data "aws_iam_role" "gpu" {
  name = var.gpu_node_role_name
}

module "karpenter" {
  source = "../.."

  cluster_name  = var.cluster_name
  node_role_arn = data.aws_iam_role.node.arn

  extra_node_roles = {
    gpu = { arn = data.aws_iam_role.gpu.arn }
  }
}

output "karpenter" {
  description = "Everything the module says."
  value       = module.karpenter
}

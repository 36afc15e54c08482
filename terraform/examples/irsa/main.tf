# A controller that gets its credentials through the cluster's identity provider, for example on Fargate, where EKS Pod
# Identity does not work.

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
  description = "Name of an EKS cluster that exists, with an identity provider in IAM."
  type        = string
}

data "aws_eks_cluster" "this" {
  name = var.cluster_name
}

module "karpenter" {
  source = "../.."

  cluster_name = var.cluster_name
  identity     = "irsa"
  oidc_issuer  = data.aws_eks_cluster.this.identity[0].oidc[0].issuer
  namespace    = "karpenter"
}

# The service account's annotation is part of these.
output "chart_values" {
  description = "Values of the Helm chart."
  value       = module.karpenter.chart_values
}

# An ordinary cluster: EKS Pod Identity, Linux and Windows nodes, everything tagged.

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

data "aws_eks_cluster" "this" {
  name = var.cluster_name
}

module "karpenter" {
  source = "../.."

  cluster_name = var.cluster_name
  windows      = true
  zonal_shift  = true

  # Nodes are launched into what carries karpenter.sh/discovery=<cluster>.
  subnet_ids        = tolist(data.aws_eks_cluster.this.vpc_config[0].subnet_ids)
  security_group_id = data.aws_eks_cluster.this.vpc_config[0].cluster_security_group_id

  tags = {
    team = "platform"
  }
}

output "karpenter" {
  description = "Everything the module says: `terraform output -json | karpenter bootstrap check --terraform-outputs -`."
  value       = module.karpenter
}

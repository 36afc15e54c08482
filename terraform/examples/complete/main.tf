# A cluster and a network that other tools made: EKS Pod Identity, Linux and Windows nodes, everything tagged.

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

# Private subnets carry this tag for internal load balancers. Those of the control plane alone, which have no way out, do
# not, and nodes in them would never join.
data "aws_subnets" "private" {
  filter {
    name   = "vpc-id"
    values = [data.aws_eks_cluster.this.vpc_config[0].vpc_id]
  }
  filter {
    name   = "tag:kubernetes.io/role/internal-elb"
    values = ["1"]
  }
}

module "karpenter" {
  source = "../.."

  cluster_name = var.cluster_name
  windows      = true
  zonal_shift  = true

  # Nodes are launched into what carries karpenter.sh/discovery=<cluster>. Only for subnets that no Terraform configuration
  # makes: see examples/vpc for the others.
  subnet_ids        = data.aws_subnets.private.ids
  security_group_id = data.aws_eks_cluster.this.vpc_config[0].cluster_security_group_id

  tags = {
    team = "platform"
  }
}

output "karpenter" {
  description = "Everything the module says: `terraform output -json | karpenter bootstrap check --terraform-outputs -`."
  value       = module.karpenter
}

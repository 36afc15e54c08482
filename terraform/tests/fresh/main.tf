# The module beside a cluster and a role that are made in the same configuration: their ids are unknown until they are.

terraform {
  required_version = ">= 1.7"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40"
    }
  }
}

resource "terraform_data" "security_group" {
  input = "sg-0123456789abcdef0"
}

resource "terraform_data" "node_role" {
  input = "arn:aws:iam::123456789012:role/team/nodes"
}

module "karpenter" {
  source = "../.."

  cluster_name       = "prod"
  subnet_ids         = ["subnet-1", "subnet-2"]
  security_group_id  = terraform_data.security_group.output
  tag_security_group = true
  node_role_arn      = terraform_data.node_role.output
  create_node_role   = false
}

output "karpenter" {
  description = "Everything the module says."
  value       = module.karpenter
}

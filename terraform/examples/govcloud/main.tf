# GovCloud with the rules such accounts often have: a path, a permissions boundary on every role, a key of one's own on
# the queue. Partition and DNS suffix follow from the region.

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
  region = "us-gov-west-1"
}

variable "cluster_name" {
  description = "Name of an EKS cluster that exists."
  type        = string
}

variable "permissions_boundary_arn" {
  description = "ARN of the boundary that every role must have."
  type        = string
}

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_iam_policy_document" "key" {
  statement {
    sid       = "Administration"
    actions   = ["kms:*"]
    resources = ["*"]

    principals {
      type        = "AWS"
      identifiers = ["arn:${data.aws_partition.current.partition}:iam::${data.aws_caller_identity.current.account_id}:root"]
    }
  }

  # Without this rules match and nothing reaches the queue.
  statement {
    sid       = "AllowEventsToUseTheKeyOfTheQueue"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = ["*"]

    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.current.account_id]
    }
  }
}

resource "aws_kms_key" "queue" {
  description         = "Encrypts Karpenter's interruption queue"
  enable_key_rotation = true
  policy              = data.aws_iam_policy_document.key.json
}

module "karpenter" {
  source = "../.."

  cluster_name             = var.cluster_name
  iam_path                 = "/platform/"
  permissions_boundary_arn = var.permissions_boundary_arn
  queue_kms_key_arn        = aws_kms_key.queue.arn
}

output "karpenter" {
  description = "Everything the module says."
  value       = module.karpenter
}

# The prerequisites, the definitions and the controller, for a cluster that exists.

terraform {
  required_version = ">= 1.5.7"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40"
    }
    helm = {
      source  = "hashicorp/helm"
      version = ">= 2.12, < 3"
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

variable "image_repository" {
  description = "Where the image is that the Dockerfile made."
  type        = string
}

data "aws_eks_cluster" "this" {
  name = var.cluster_name
}

provider "helm" {
  kubernetes {
    host                   = data.aws_eks_cluster.this.endpoint
    cluster_ca_certificate = base64decode(data.aws_eks_cluster.this.certificate_authority[0].data)

    exec {
      api_version = "client.authentication.k8s.io/v1beta1"
      command     = "aws"
      args        = ["eks", "get-token", "--cluster-name", var.cluster_name]
    }
  }
}

module "karpenter" {
  source = "../.."

  cluster_name      = var.cluster_name
  security_group_id = data.aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
}

# The whole module, so that the controller starts when its role and its queue are there, and goes before they do.
module "chart" {
  source = "../../chart"

  karpenter = module.karpenter
  image     = { repository = var.image_repository }
}

# The definitions and the controller, installed with the values that follow from the module above. A module of its own, so
# that installing charts by other means needs no Helm provider.

terraform {
  required_version = ">= 1.5.7"

  required_providers {
    helm = {
      source  = "hashicorp/helm"
      version = ">= 2.12"
    }
  }
}

variable "karpenter" {
  description = "The prerequisites module: `karpenter = module.karpenter`."
  type = object({
    namespace    = string
    chart_values = any
  })
}

variable "image" {
  description = "The controller's image. None is published: build it with the Dockerfile and push it where nodes can pull it."
  type = object({
    repository = string
    tag        = optional(string)
    digest     = optional(string)
  })
}

variable "chart" {
  description = "Path or OCI address of the chart."
  type        = string
  default     = null
}

variable "crd_chart" {
  description = "Path or OCI address of the chart of the definitions."
  type        = string
  default     = null
}

variable "chart_version" {
  description = "Version of charts given by address."
  type        = string
  default     = null
}

variable "values" {
  description = "Further values of the controller's chart, as YAML documents; later ones win."
  type        = list(string)
  default     = []
}

module "values" {
  source = "./values"

  chart_values = var.karpenter.chart_values
  image        = var.image
  values       = var.values
}

# A release of its own: Helm never upgrades definitions that a chart carries in `crds/`.
resource "helm_release" "crds" {
  name             = "karpenter-crd"
  namespace        = var.karpenter.namespace
  create_namespace = true
  chart            = coalesce(var.crd_chart, "${path.module}/../../charts/karpenter-crd")
  version          = var.chart_version
}

resource "helm_release" "karpenter" {
  name      = "karpenter"
  namespace = helm_release.crds.namespace
  chart     = coalesce(var.chart, "${path.module}/../../charts/karpenter")
  version   = var.chart_version
  skip_crds = true
  values    = module.values.documents
}

output "version" {
  description = "Version of the chart that is installed."
  value       = helm_release.karpenter.version
}

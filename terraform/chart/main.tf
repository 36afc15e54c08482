# The controller, installed with the values that follow from the module above. A module of its own, so that whoever
# installs charts by other means needs no Helm provider.

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

variable "chart" {
  description = "Path or OCI address of the chart."
  type        = string
  default     = null
}

variable "chart_version" {
  description = "Version of a chart given by address."
  type        = string
  default     = null
}

variable "values" {
  description = "Further values, as YAML documents; later ones win."
  type        = list(string)
  default     = []
}

resource "helm_release" "karpenter" {
  name             = "karpenter"
  namespace        = var.karpenter.namespace
  create_namespace = true
  chart            = coalesce(var.chart, "${path.module}/../../charts/karpenter")
  version          = var.chart_version
  values           = concat([yamlencode(var.karpenter.chart_values)], var.values)
}

output "version" {
  description = "Version of the chart that is installed."
  value       = helm_release.karpenter.version
}

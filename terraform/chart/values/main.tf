# The values of the chart: what follows from the prerequisites, the image, and the caller's own. Apart from the release,
# so that they can be looked at, and tested, without the Helm provider.

terraform {
  required_version = ">= 1.5.7"
}

variable "chart_values" {
  description = "Output `chart_values` of the prerequisites module."
  type        = any
}

variable "image" {
  description = "The controller's image."
  type = object({
    repository = string
    tag        = optional(string)
    digest     = optional(string)
  })

  validation {
    condition     = var.image.repository != ""
    error_message = "Expected a repository that nodes can pull from: none is published, the Dockerfile makes the image."
  }
}

variable "values" {
  description = "Further values, as YAML documents; later ones win."
  type        = list(string)
  default     = []
}

output "documents" {
  description = "YAML documents for Helm; later ones win."
  value = concat(
    [
      yamlencode(var.chart_values),
      yamlencode({ controller = { image = { for key, value in var.image : key => value if value != null } } }),
    ],
    var.values,
  )
}
